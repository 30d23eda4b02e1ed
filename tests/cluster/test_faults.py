"""Faults of networks and hosts: each does what it says, and heal undoes it."""

import hashlib
import subprocess
import time

import pytest

from cluster import ClusterError, testing

# CONNECT HOST PORT SECONDS -> "open", or the name of the error.
CONNECT = """
import errno, socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3])).close()
    print("open")
except OSError as e:
    print(errno.errorcode[e.errno] if e.errno else "timeout")
"""
# A connection to HOST PORT that sends what it is told, line by line, and says what it sees within 0.5 s.
TALK = """
import errno, socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
s.settimeout(0.5)
print("ready", flush=True)
for line in sys.stdin:
    try:
        if line != "\\n":
            s.sendall(line.encode())
        got = s.recv(65536)
        print(got.decode().strip() or "EOF", flush=True)
    except OSError as e:
        print(errno.errorcode[e.errno] if e.errno else "timeout", flush=True)
"""
# Sends BYTES to an echo at HOST PORT and reads them back; prints the seconds and the SHA-256 of what came.
TRANSFER = """
import hashlib, random, socket, sys, threading, time
data = random.Random(7).randbytes(int(sys.argv[3]))
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)
begin = time.monotonic()
def send():
    s.sendall(data)
    s.shutdown(socket.SHUT_WR)
threading.Thread(target=send).start()
seen = hashlib.sha256()
while got := s.recv(65536):
    seen.update(got)
print(time.monotonic() - begin, seen.hexdigest())
"""
ROUND_TRIPS = """
import socket, sys, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
times = []
for _ in range(int(sys.argv[3])):
    begin = time.monotonic()
    s.sendall(b"x")
    s.recv(1)
    times.append(time.monotonic() - begin)
print(sorted(times)[len(times) // 2] * 1000)
"""
# Listens for datagrams until all have come, or one says "end"; prints the numbers that came, in their order. "end" may
# overtake others where the wire reorders: there it is not listened to.
COLLECT = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
s.bind(("0.0.0.0", int(sys.argv[1])))
s.settimeout(10)
print("ready", flush=True)
seen, count, heeds_end = [], int(sys.argv[2]), sys.argv[3] == "heeds-end"
while len(seen) < count:
    text = s.recv(100).decode()
    if text != "end":
        seen.append(text)
    elif heeds_end:
        break
print(" ".join(seen), flush=True)
"""
SCATTER = """
import select, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(int(sys.argv[3])):
    s.sendto(str(number).encode(), (sys.argv[1], int(sys.argv[2])))
    select.select([], [], [], 0.0002)
for _ in range(20):  # after what is under way, and some of them may be lost as well
    select.select([], [], [], 0.02)
    s.sendto(b"end", (sys.argv[1], int(sys.argv[2])))
"""


class Talk:
    def __init__(self, command):
        self._command = command

    def say(self, text):
        self._command.stdin.write(text + "\n")
        self._command.stdin.flush()
        return self._command.stdout.readline().strip()


@pytest.fixture
def talk(cluster, service):
    """talk(port): a connection from head to n1."""
    return lambda port=5000: Talk(service("head", TALK, cluster.address("n1"), port))


@pytest.fixture
def connect(cluster, python):
    return lambda host, port, wait=0.3, frm="head", v=4: python(frm, CONNECT, cluster.address(host, v), port, wait)


def datagrams(cluster, service, python, count, *, are_lost=False):
    """The numbers of those that came from head to n1, in their order."""
    collector = service("n1", COLLECT, 5001, count, "heeds-end" if are_lost else "all")
    python("head", SCATTER, cluster.address("n1"), 5001, count)
    return [int(word) for word in collector.stdout.readline().split()]


def test_one_nic_reaches_nobody(cluster, echo, connect, python):
    nics = {(own["nic"], own["dead_nic"]) for own in cluster.state["hosts"].values()}
    assert len(nics) == len(cluster.hosts)
    echo("n1")
    assert connect("n1", 5000) == "open" and connect("n1", 5000, v=6) == "open"
    own = cluster.state["hosts"]["n1"]
    listed = cluster.run("n1", "alice", ["ip", "-br", "-4", "addr"]).stdout.split("\n")
    assert listed[1].startswith(own["dead_nic"]) and " UP " in listed[1] and own["dead_v4"] in listed[1]
    assert listed[2].startswith(own["nic"]) and own["v4"] in listed[2]
    assert python("n1", CONNECT, own["dead_v4"], 5000, 0.3) == "open"  # its own address, on itself
    assert python("head", CONNECT, own["dead_v4"], 5000, 0.3) == "timeout"
    assert python("head", CONNECT, "8.8.8.8", 53, 0.3) == "ENETUNREACH"


@pytest.mark.parametrize("how", ["down", "cable", "drop"])
def test_a_silent_cut_stalls_and_heals(cluster, echo, connect, talk, how):
    echo("n1")
    line = talk()
    assert line.say("one") == "one"
    cluster.cut("n1", how)
    assert line.say("two") == "timeout"
    for version in (4, 6):
        assert connect("n1", 5000, v=version) in ("timeout", "EHOSTUNREACH")
    assert connect("n2", 22) == "open"
    if how == "down":
        assert connect("head", 22, frm="n1") == "ENETUNREACH"
    cluster.heal("n1")
    said = testing.eventually(lambda: line.say("") == "two", 20)  # the retransmission brings it
    assert said and line.say("three") == "three"
    assert connect("n1", 5000, 2) == connect("n1", 5000, 2, v=6) == "open"


def test_a_cut_with_resets(cluster, echo, connect, talk):
    echo("n1")
    line = talk()
    assert line.say("one") == "one"
    cluster.cut("n1", "reset")
    assert line.say("two") in ("ECONNRESET", "EPIPE")
    for version in (4, 6):
        assert connect("n1", 5000, v=version) == "ECONNREFUSED"
        assert connect("head", 22, frm="n1", v=version) == "ECONNREFUSED"
    cluster.heal("n1")
    assert connect("n1", 5000) == "open"


def test_every_port_but_sshs(cluster, echo, connect):
    """What keeps agents from dialling back to the launcher on head."""
    echo("head", 5000)
    echo("n1", 5000)
    cluster.only_ports("head")
    for version in (4, 6):
        assert connect("head", 5000, frm="n1", v=version) == "timeout"
        assert connect("head", 22, frm="n1", v=version) == "open"
        assert connect("n1", 5000, v=version) == "open"  # what head opens itself works
    assert cluster.run("head", "alice", ["ssh", "n1", "hostname"]).stdout == "n1\n"
    cluster.heal("head")
    cluster.only_ports("head", "22,4000-5500", "reset")
    assert connect("head", 5000, frm="n1") == "open"
    assert connect("head", 6000, frm="n1") == "ECONNREFUSED"


def test_ports_dropped_under_an_open_connection(cluster, echo, talk):
    echo("n1", 5000)
    echo("n1", 6000)
    hit, spared = talk(5000), talk(6000)
    cluster.drop("n1", ports="4000-5500")
    assert hit.say("one") == "timeout" and spared.say("one") == "one"
    cluster.heal("n1")
    assert testing.eventually(lambda: hit.say("") == "one", 20)


def test_packets_dropped_by_chance(cluster, service, python):
    assert datagrams(cluster, service, python, 200) == list(range(200))
    cluster.drop("n1", probability=0.3, direction="in")
    came = datagrams(cluster, service, python, 1000, are_lost=True)
    assert 620 < len(came) < 780 and came == sorted(came)


def test_a_limited_rate(cluster, echo, python):
    echo("n1")
    size = 1_000_000
    free = float(python("head", TRANSFER, cluster.address("n1"), 5000, size).split()[0])
    cluster.rate("n1", "20mbit")
    limited = float(python("head", TRANSFER, cluster.address("n1"), 5000, size).split()[0])
    assert limited > 0.3  # 8 Mbit; the first 64 kB are free
    assert free < limited
    cluster.rate("n1", None)
    shown = cluster.run("n1", "root", ["tc", "qdisc", "show", "dev", cluster.state["hosts"]["n1"]["nic"]]).stdout
    assert "tbf" not in shown


def test_the_delay_relay(cluster, echo, python):
    echo("n1")
    address = cluster.address("n1")
    before = float(python("head", ROUND_TRIPS, address, 5000, 20))
    cluster.delay("n1", 20)
    delayed = float(python("head", ROUND_TRIPS, address, 5000, 10))
    assert 40 <= delayed < 40 + 20 and before < 20
    data = 3_000_000
    _, came = python("head", TRANSFER, address, 5000, data).split()
    cluster.delay("n1", 5, jitter=2)
    assert 6 <= float(python("head", ROUND_TRIPS, address, 5000, 10)) < 34
    cluster.delay("n1", 0)
    _, direct = python("head", TRANSFER, address, 5000, data).split()
    assert came == direct and len(direct) == len(hashlib.sha256().hexdigest())
    assert float(python("head", ROUND_TRIPS, address, 5000, 20)) < 20
    assert not [p for p in cluster.processes("switch") if "wire" in " ".join(p.argv)]


def test_the_relay_reorders_and_loses(cluster, echo, service, python):
    cluster.delay("n1", 5, reorder=0.2)
    came = datagrams(cluster, service, python, 300)
    assert came != sorted(came) and sorted(came) == list(range(300))
    cluster.delay("n1", 1, loss=0.2)
    came = datagrams(cluster, service, python, 500, are_lost=True)
    assert 330 < len(came) < 470 and came == sorted(came)
    cluster.delay("n1", 2, reorder=0.1, loss=0.01)
    echo("n1")
    _, through = python("head", TRANSFER, cluster.address("n1"), 5000, 300_000).split()
    cluster.heal("n1")
    assert python("head", TRANSFER, cluster.address("n1"), 5000, 300_000).split()[1] == through


def test_a_killed_host_is_silent_and_boots_again(cluster, echo, connect, talk):
    echo("n1")
    line = talk()
    assert line.say("one") == "one"
    cluster.kill_host("n1")
    assert not cluster.running("n1") and cluster.processes("n1") == []
    assert line.say("two") == "timeout"  # no end of file, no reset
    assert connect("n1", 22) in ("timeout", "EHOSTUNREACH") and connect("n2", 22) == "open"
    with pytest.raises(ClusterError, match="n1 is not running"):
        cluster.run("n1", "alice", ["true"])
    cluster.boot("n1")
    assert cluster.run("head", "alice", ["ssh", "n1", "hostname"], timeout=20).stdout == "n1\n"


def test_sshd_stops_and_starts(cluster, connect):
    cluster.stop_sshd("n1")
    assert connect("n1", 22) == "ECONNREFUSED"
    cluster.start_sshd("n1")
    cluster.start_sshd("n1", "-p", "2222", "-o", "PidFile=/run/sshd-2222.pid")
    for port in ("22", "2222"):
        result = cluster.run("head", "alice", ["ssh", "-o", "StrictHostKeyChecking=no", "-p", port, "n1", "hostname"])
        assert result.stdout == "n1\n"
    cluster.run("n1", "root", ["sh", "-c", "kill $(cat /run/sshd-2222.pid)"], check=True)


def test_faults_add_up_until_healed(cluster, echo, connect):
    echo("n1", 5000)
    echo("n1", 6000)
    cluster.drop("n1", ports=[5000])
    cluster.drop("n1", ports=[6000])
    begin = time.monotonic()
    assert connect("n1", 5000, 0.2) == connect("n1", 6000, 0.2) == "timeout" and connect("n1", 22) == "open"
    assert time.monotonic() - begin < 5
    with pytest.raises(ClusterError, match="none of"):
        cluster.cut("n1", "sideways")
    cluster.heal("n1")
    assert connect("n1", 5000) == connect("n1", 6000) == "open"
    text = cluster.run("n1", "root", ["nft", "list", "ruleset"], stderr=subprocess.STDOUT).stdout
    assert text == ""
