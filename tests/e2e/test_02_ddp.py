"""PyTorch DistributedDataParallel over gloo, with nothing but hvdrun before the command; and the port of its store."""

import os
import re
import signal

import pytest
from cluster import testing
from conftest import REPOSITORY

PYTHON = "/usr/bin/python3"
DIGITS = [PYTHON, str(REPOSITORY / "examples/ddp_digits.py")]
TRAINING = 240.0  # importing torch and scikit-learn in four processes takes long on a busy machine


@pytest.fixture(scope="module")
def needs_torch(clusters):
    script = "import torch.distributed, sklearn.datasets"
    probe = clusters.get(4).run("n1", "alice", [PYTHON, "-c", script], timeout=TRAINING)
    if probe.returncode != 0:
        pytest.skip(f"python3-torch and python3-sklearn are needed: {probe.stderr.strip().splitlines()[-1]}")


def lines_of_rank_0(result):
    """The training log; nobody but rank 0 prints."""
    assert result.rc == 0, result
    assert all(line.startswith("[0]<stdout>:") for line in result.stdout.splitlines()), result
    return [line.removeprefix("[0]<stdout>:") for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def on_one_host():
    """What four ranks on one host printed; the first test fills it, so that its failure is reported there."""
    return []


def test_four_ranks_on_one_host(hvdrun, needs_torch, on_one_host, no_leftovers):
    lines = lines_of_rank_0(hvdrun(["-np", "4", *DIGITS], timeout=TRAINING))
    losses = [float(re.fullmatch(r"epoch \d+/\d+: loss ([\d.]+)", line)[1]) for line in lines[:-1]]
    assert len(losses) >= 5 and losses[-1] < losses[0] / 4, lines
    accuracy = re.fullmatch(r"accuracy on 360 test images: ([\d.]+) \(4 ranks\)", lines[-1])
    assert accuracy and float(accuracy[1]) > 0.9, lines
    on_one_host.extend(lines)


@pytest.mark.parametrize("where", ["n1:1,n2:1,n3:1,n4:1", "n1:2,n2:2"])
def test_same_accuracy_on_many_hosts(hvdrun, needs_torch, on_one_host, no_leftovers, where):
    assert on_one_host, "there is no result of one host to compare with"
    lines = lines_of_rank_0(hvdrun(["-np", "4", "-H", where, *DIGITS], timeout=TRAINING))
    assert lines[-1] == on_one_host[-1]


def listed(cluster, host, port):
    """States of the host's TCP sockets with this local port in /proc/net/tcp*, where a socket that is bound and neither
    listens nor is connected does not appear."""
    found = []
    for name in ("tcp", "tcp6"):
        for line in cluster.path(host, f"/proc/1/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if int(fields[1].rsplit(":", 1)[1], 16) == port:
                found.append(fields[3])
    return found


# Inodes of the sockets that are bound to the port and do nothing: Linux 6.8 lists them (TCP_BOUND_INACTIVE).
BOUND = """
import socket, struct, sys
for family in (socket.AF_INET, socket.AF_INET6):
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as netlink:
        body = struct.pack("=BBBxIHH16s16sI8s", family, socket.IPPROTO_TCP, 0, 1 << 13, 0, 0, b"", b"", 0, b"\\xff" * 8)
        netlink.send(struct.pack("=IHHII", 16 + len(body), 20, 0x301, 1, 0) + body)
        done = False
        while not done:
            data = netlink.recv(65536)
            while data:
                size, kind = struct.unpack_from("=IH", data)
                done = done or kind in (2, 3)
                if kind == 20 and struct.unpack_from("!H", data, 20)[0] == int(sys.argv[1]):
                    print(struct.unpack_from("=I", data, 16 + 68)[0])
                data = data[(size + 3) & ~3:]
"""


def bound_inodes(cluster, host, port):
    shown = cluster.run(host, "root", [PYTHON, "-c", BOUND, str(port)], check=True).stdout.split()
    return {int(inode) for inode in shown}


def can_list_bound(cluster, host):
    release = cluster.run(host, "root", ["uname", "-r"], check=True).stdout
    return tuple(int(number) for number in re.match(r"(\d+)\.(\d+)", release).groups()) >= (6, 8)


def socket_inodes(process):
    folder = f"/proc/{process.pid}/fd"
    links = [os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)]
    return {int(link[8:-1]) for link in links if link.startswith("socket:[")}


BIND = """
import errno, socket, sys
family, port, reuse = getattr(socket, sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "reuse"
with socket.socket(family) as own:
    if reuse:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        own.bind(("", port))
        own.listen()
        print("listens")
    except OSError as error:
        print(errno.errorcode[error.errno])
"""
# The ports that the kernel gives to those who name none.
CHANCE = """
import socket, sys
ports = set()
for family in (socket.AF_INET, socket.AF_INET6):
    for _ in range(20):
        with socket.socket(family) as own:
            own.bind(("", 0))
            ports.add(own.getsockname()[1])
print(*sorted(ports))
"""


@pytest.fixture
def sleeping_job(hvdrun, cluster):
    """(MASTER_PORT, the agent on n1) of a job whose ranks do not touch the port."""
    command = hvdrun.start(["-np", "2", "-H", "n1:1,n2:1", "sleep", "1000"])

    def ranks():
        return [process for process in cluster.processes("n1")
                if process.argv == ("sleep", "1000") and "MASTER_PORT" in process.environ]

    assert testing.eventually(ranks, 60), "the job did not start"
    rank = ranks()[0]
    by_pid = {process.pid: process for process in cluster.processes("n1")}
    warden = by_pid[rank.ppid]
    yield int(rank.environ["MASTER_PORT"]), by_pid[warden.ppid]
    command.send_signal(signal.SIGINT)
    assert hvdrun.finish(command).rc == 130


def test_port_is_held_without_listening(cluster, no_leftovers, sleeping_job):
    port, agent = sleeping_job
    assert listed(cluster, "n1", port) == [] and listed(cluster, "n2", port) == []
    if can_list_bound(cluster, "n1"):
        held = bound_inodes(cluster, "n1", port)
        assert len(held) == 1 and held <= socket_inodes(agent), (held, agent)
        assert not bound_inodes(cluster, "n2", port)
    connect = cluster.run("n2", "alice", [PYTHON, "-c", "import socket, sys; socket.create_connection((sys.argv[1], "
                                          "int(sys.argv[2])), 5)", cluster.address("n1"), str(port)])
    assert "ConnectionRefusedError" in connect.stderr, connect


@pytest.mark.parametrize("user", ["alice", "bob"])
@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6"])
def test_port_is_only_for_those_who_share_it(cluster, no_leftovers, sleeping_job, family, user):
    port, _ = sleeping_job

    def bind(how):
        return cluster.run("n1", user, [PYTHON, "-c", BIND, family, str(port), how], check=True).stdout.strip()

    assert bind("plain") == "EADDRINUSE"
    if user == "alice":
        assert bind("reuse") == "listens"


def test_kernel_gives_the_port_to_nobody(cluster, no_leftovers, sleeping_job):
    port, _ = sleeping_job
    knob = cluster.path("n1", "/proc/sys/net/ipv4/ip_local_port_range")
    before = cluster.run("n1", "root", ["cat", "/proc/sys/net/ipv4/ip_local_port_range"], check=True).stdout
    script = 'echo "$1 $2" > /proc/sys/net/ipv4/ip_local_port_range'
    cluster.run("n1", "root", ["sh", "-c", script, "sh", str(port), str(port + 3)], check=True)
    try:
        given = cluster.run("n1", "bob", [PYTHON, "-c", CHANCE], check=True).stdout.split()
    finally:
        cluster.run("n1", "root", ["sh", "-c", script, "sh", *before.split()], check=True)
    assert given and str(port) not in given, (port, given)
