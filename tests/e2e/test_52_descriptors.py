"""An agent that runs out of file descriptors, and stores while the launcher is away: the job goes on."""

import re
import signal

import pytest
from conftest import BIN_DIR
from console import PATIENCE, Watched

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


def agent(cluster, host):
    found = [each for each in cluster.processes(host) if each.uid == cluster.uid("alice") and "--stdio" in each.argv
             and each.comm != "muster-warden"]
    assert len(found) == 1, found
    return found[0]


def open_files_limit(process):
    text = open(f"/proc/{process.pid}/limits").read()
    return tuple(re.search(r"^Max open files\s+(\S+)\s+(\S+)", text, re.M).groups())


def store_ports(cluster, host):
    """Those of alice's that listen on all addresses: the stores of the agent there."""
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
    ports = store_ports(cluster, "n1")
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
