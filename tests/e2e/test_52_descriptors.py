"""An agent that runs out of file descriptors, strangers at the ports of hvdrun, and stores while the launcher is away:
the job goes on."""

import re
import signal
import subprocess

import pytest
from conftest import BIN_DIR
from console import PATIENCE, Watched
from cluster import testing

MUSTER = str(BIN_DIR / "muster")
GATE = "/home/alice/gate"
DONE = "/home/alice/done"
# Each rank waits for its gate, then asks the store, as a rank does that comes late: torch 1.13's ADD of 1, by hand.
ASK = ("import os, socket, struct\n"
       "store = socket.create_connection((os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])), 60)\n"
       "store.sendall(b'\\x03' + struct.pack('<Q', 5) + b'init/' + struct.pack('<q', 1))\n"
       "print('counted' if len(store.recv(8)) == 8 else 'closed', flush=True)\n")
RANK = (f"echo ready; until [ -e {GATE} ]; do sleep 0.1; done; python3 -c \"{ASK}\" > {DONE}.new; "
        f"cat {DONE}.new; mv {DONE}.new {DONE}")
# As many connections as the port takes, for some seconds: those that are closed are made again.
FLOOD = r"""
import resource, select, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (2000, 2000))
ports, count, seconds = [int(port) for port in sys.argv[2].split(",")], int(sys.argv[3]), float(sys.argv[4])
held, made, end = {}, 0, time.monotonic() + seconds
poll = select.poll()
while time.monotonic() < end:
    while len(held) < count:
        peer = socket.socket()
        peer.setblocking(False)
        peer.connect_ex((sys.argv[1], ports[made % len(ports)]))
        poll.register(peer, select.POLLIN)
        held[peer.fileno()] = peer
        made += 1
    for number, _ in poll.poll(100):
        poll.unregister(number)
        held.pop(number).close()
print("made", made)
"""

# Three kinds of strangers at each port, for as long as stdin is open: silent ones, some that say garbage once, and some
# that go on saying it. Those that are closed come again. Writes "full" when each has been there once.
CROWD = r"""
import os, resource, select, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4000, 4000))
ports, count = [int(port) for port in sys.argv[2].split(",")], int(sys.argv[3])
says = [b"", b"\x16\x03\x01\x02\x00\x01\x00", os.urandom(3000)]
held, made = {}, 0
poll = select.poll()
poll.register(0, select.POLLIN)
while True:
    while len(held) < count:
        peer = socket.socket()
        peer.setblocking(False)
        peer.connect_ex((sys.argv[1], ports[made % len(ports)]))
        said = says[made // len(ports) % 3]
        poll.register(peer, select.POLLIN | (select.POLLOUT if said else 0))
        held[peer.fileno()] = peer, said
        made += 1
        if made == count:
            print("full", flush=True)
    for number, events in poll.poll(100):
        if number == 0:
            sys.exit(f"made {made}")
        peer, said = held[number]
        try:
            if events & select.POLLOUT:
                peer.send(said)
            if len(said) < 100 or events & ~select.POLLOUT:
                poll.modify(peer, select.POLLIN)
            gone = events & (select.POLLERR | select.POLLHUP) or events & select.POLLIN and not peer.recv(4096)
        except BlockingIOError:
            gone = False
        except OSError:
            gone = True
        if gone:
            poll.unregister(peer)
            held.pop(number)[0].close()
"""


def agent(cluster, host):
    found = [each for each in cluster.processes(host) if each.uid == cluster.uid("alice") and "--stdio" in each.argv
             and each.comm != "muster-warden"]
    assert len(found) == 1, found
    return found[0]


def open_files_limit(process):
    text = open(f"/proc/{process.pid}/limits").read()
    return tuple(re.search(r"^Max open files\s+(\S+)\s+(\S+)", text, re.M).groups())


def listening_ports(cluster, host):
    """Those of alice's that listen on all addresses: of an agent those of its stores, of hvdrun those for agents."""
    listing = cluster.run(host, "root", ["cat", "/proc/net/tcp6"], check=True).stdout
    rows = [line.split() for line in listing.splitlines()[1:]]
    return [int(row[1].split(":")[1], 16) for row in rows
            if row[3] == "0A" and row[1].startswith("0" * 32) and int(row[7]) == cluster.uid("alice")]


def test_an_agent_raises_its_limit_and_its_ranks_keep_theirs(hvdrun, cluster, no_leftovers):
    job = Watched(hvdrun, cluster, ["-H", "n1", "sh", "-c", "ulimit -Sn; ulimit -Hn; echo ready; exec sleep 1000"])
    job.out.wait_for("ready")
    soft, hard = open_files_limit(agent(cluster, "n1"))
    assert soft == hard
    assert job.out.text.splitlines()[:2] == [f"[0]<stdout>:{hard}"] * 2, job.out.text
    job.signal(signal.SIGINT)
    assert job.end().rc == 130


@pytest.fixture
def job(hvdrun, cluster, no_leftovers):
    """Two ranks of torch, which wait for their gates."""
    for host in ("n1", "n2"):
        cluster.run(host, "alice", ["rm", "-f", GATE, DONE], check=True)
    job = Watched(hvdrun, cluster, argv=[MUSTER, "torchrun", "--no-python", "-H", "n1,n2", "sh", "-c", RANK])
    job.out.wait_for("ready", count=2)
    return job


def open_gates(cluster):
    for host in ("n1", "n2"):
        cluster.run(host, "alice", ["touch", GATE], check=True)


def test_a_flood_of_strangers_does_not_end_a_job(job, cluster):
    ports = listening_ports(cluster, "n1")
    assert len(ports) == 2, ports
    first = agent(cluster, "n1")
    in_use = len(list(cluster.path("n1", f"/proc/{first.inner_pid}/fd").iterdir()))
    cluster.run("n1", "alice", ["prlimit", f"--nofile={in_use + 40}:", "--pid", str(first.inner_pid)], check=True)
    job.signal(signal.SIGSTOP)  # the launcher answers no question about an owner: each stranger stays for 5 s
    try:
        flood = ["python3", "-c", FLOOD, cluster.address("n1"), ",".join(map(str, ports)), "300", "7"]
        flooded = cluster.run("n3", "bob", flood, timeout=PATIENCE * 2, check=True)
        assert int(flooded.stdout.split()[1]) > 300, flooded
    finally:
        job.signal(signal.SIGCONT)
    assert agent(cluster, "n1").pid == first.pid
    open_gates(cluster)
    result = job.end()
    assert result.rc == 0 and result.stdout.count("counted") == 2, result


@pytest.fixture
def crowd(cluster):
    """crowd(ports): strangers of n3 at these ports of head, until the end of the test."""
    started = []

    def come(ports, count):
        command = cluster.start("n3", "bob", ["python3", "-c", CROWD, cluster.address("head"), ",".join(map(str, ports)),
                                              str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)
        started.append(command)
        said = command.stdout.readline()
        assert said == b"full\n", said + command.stderr.read()

    yield come
    for command in started:
        _, said = command.communicate(timeout=PATIENCE)
        assert said.startswith(b"made "), said


def test_strangers_at_hvdruns_ports_keep_no_agent_out(hvdrun, cluster, no_leftovers, crowd):
    """n1 may dial in before they come, n2 cannot before they are there."""
    cluster.cut("n2", "drop")
    job = Watched(hvdrun, cluster, ["--agent-link", "dial", "--start-timeout", "120", "-np", "2", "-H", "n1:1,n2:1", "sh",
                                    "-c", "echo ready; read line; for i in $(seq 2000); do echo line $i; done"],
                  stdin=subprocess.PIPE)
    testing.eventually(lambda: len(listening_ports(cluster, "head")) == 2, PATIENCE)
    crowd(listening_ports(cluster, "head"), 600)
    cluster.heal("n2")
    job.out.wait_for("ready", count=2, timeout=3 * PATIENCE)
    job.command.stdin.close()
    result = job.end(timeout=3 * PATIENCE)
    assert result.rc == 0, result
    for rank in range(2):
        assert re.findall(rf"^\[{rank}\]<stdout>:line (\d+)$", result.stdout, re.M) == [str(i) for i in range(1, 2001)]


def test_a_store_serves_other_hosts_while_the_launcher_is_away(job, cluster):
    job.signal(signal.SIGSTOP)
    try:
        open_gates(cluster)
        for host in ("n1", "n2"):
            cluster.run(host, "alice", ["sh", "-c", f"until [ -e {DONE} ]; do sleep 0.1; done"], timeout=PATIENCE, check=True)
            assert cluster.run(host, "alice", ["cat", DONE], check=True).stdout == "counted\n", host
    finally:
        job.signal(signal.SIGCONT)
    result = job.end()
    assert result.rc == 0 and result.stdout.count("counted") == 2, result
