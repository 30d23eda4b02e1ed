"""Horovod's store: what an unmodified worker says to its rendezvous server at start and end, over four hosts, by a
client written from the protocol; and that nobody else gets a byte of it."""

import re
import signal

import pytest
from console import PYTHON, Watched

SHAPE = ["-np", "16", "-H", "n1:4,n2:4,n3:4,n4:4"]

# One worker: scopes global, local_<host>, cross_<local rank>, each published, read, and finished. One connection a
# request, the headers of horovod 0.28.1's C++ client.
WORKER = r"""
import os, socket, sys, time
env = os.environ
number = lambda name: int(env["HOROVOD_" + name])
server = (env["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(env["HOROVOD_GLOO_RENDEZVOUS_PORT"]))
requests = 0

def request(method, path, body=b""):
    global requests
    requests += 1
    with socket.create_connection(server) as peer:
        head = f"{method} {path} HTTP/1.1\r\nHost: {server[0]}\r\nContent-Length: {len(body)}\r\n\r\n"
        peer.sendall(head.encode() + body)
        text = b""
        while b"\r\n\r\n" not in text:
            more = peer.recv(65536)
            assert more, "the server closed the connection"
            text += more
        head, _, text = text.partition(b"\r\n\r\n")
        length = int(head.split(b"\r\nContent-Length: ")[1].split(b"\r\n")[0])
        while len(text) < length:
            text += peer.recv(65536)
        return int(head.split()[1]), text

def value(scope, rank, size, turn):
    return b"".join(f"{scope} {rank}>{other} {turn}".encode().ljust(136, b"\0") for other in range(size - 1))

def rendezvous(scope, rank, size, turn):
    assert request("PUT", f"/{scope}/rank_{rank}", socket.gethostname().encode()) == (200, b"")
    for other in range(rank):
        assert request("GET", f"/{scope}/rank_{other}")[0] in (200, 404)
    assert request("PUT", f"/{scope}/{rank}", value(scope, rank, size, turn)) == (200, b"")
    for other in range(size):
        while True:
            status, found = request("GET", f"/{scope}/{other}")
            if status == 200:
                break
            assert (status, found) == (404, b"")
            time.sleep(0.01)
        assert found == value(scope, other, size, turn), (scope, rank, other, found[:60])

scopes = [("global", number("RANK"), number("SIZE")),
          ("local_" + env["HOROVOD_HOSTNAME"], number("LOCAL_RANK"), number("LOCAL_SIZE")),
          ("cross_" + env["HOROVOD_LOCAL_RANK"], number("CROSS_RANK"), number("CROSS_SIZE"))]
turns = int(sys.argv[1])
for turn in range(turns):
    for scope in scopes:
        rendezvous(*scope, turn)
        # The barrier that Gloo makes over its mesh before anybody finishes.
        mark = f"barrier_{turn}_{scope[0]}"
        request("PUT", f"/{mark}/{scope[1]}", b"here")
        for other in range(scope[2]):
            while request("GET", f"/{mark}/{other}")[0] != 200:
                time.sleep(0.01)
        assert request("DELETE", f"/{scope[0]}/{scope[1]}") == (200, b"")
print("done", requests, flush=True)
"""

HOLD = r"""
import os, socket, sys, time
host, port = os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])
with socket.create_connection((host, port)) as peer:
    body = b"the job's own"
    peer.sendall(b"PUT /global/secret HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert peer.recv(64).startswith(b"HTTP/1.1 200")
print("port", port, flush=True)
sys.stdin.read()
time.sleep(1000)
"""

# Asks as somebody else; prints what it got, or nothing.
ASK = r"""
import socket, sys
for port in sys.argv[2:]:
    try:
        with socket.create_connection((sys.argv[1], int(port)), 10) as peer:
            peer.settimeout(10)
            peer.sendall(b"GET /global/secret HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
            print("got", peer.recv(1000))
    except OSError as error:
        print("got", b"", type(error).__name__)
"""


@pytest.mark.parametrize("turns", [1, 3])
def test_workers_meet(hvdrun, no_leftovers, turns):
    result = hvdrun([*SHAPE, PYTHON, "-c", WORKER, str(turns)], timeout=150)
    assert result.rc == 0, result
    assert len(re.findall(r"^\[\d+\]<stdout>:done \d+$", result.stdout, re.M)) == 16, result


def test_workers_meet_on_one_host(hvdrun, no_leftovers):
    result = hvdrun(["-np", "3", "-H", "n2:4", PYTHON, "-c", WORKER, "2"], timeout=150)
    assert result.rc == 0, result


def test_workers_meet_when_launcher_ports_are_dropped(hvdrun, no_leftovers):
    result = hvdrun(["--agent-link", "ssh", *SHAPE, PYTHON, "-c", WORKER, "1"], timeout=150)
    assert result.rc == 0, result


def test_nobody_else_gets_anything(hvdrun, cluster, no_leftovers):
    """bob on the job's hosts, at every port that alice's processes listen at."""
    job = Watched(hvdrun, cluster, [*SHAPE, PYTHON, "-c", HOLD])
    job.out.wait_for(r"port \d+", 16, timeout=100)
    alice = str(cluster.uid("alice"))
    asked = 0
    for host in cluster.nodes:
        listening = cluster.run(host, "root", ["ss", "-Hltne"], check=True).stdout
        ports = [line.split()[3].rsplit(":", 1)[1] for line in listening.splitlines() if f"uid:{alice}" in line]
        assert ports, listening
        for where, target in ((host, "127.0.0.1"), ("n4" if host != "n4" else "n1", cluster.address(host))):
            answer = cluster.run(where, "bob", [PYTHON, "-c", ASK, target, *ports], timeout=100, check=True).stdout
            assert len(re.findall(r"^got b''", answer, re.M)) == len(ports), (host, where, answer)
            asked += len(ports)
    assert asked >= 10
    own = re.search(r"port (\d+)", job.out.text)[1]
    host = next(f"n{1 + int(rank) // 4}" for rank, port in re.findall(r"\[(\d+)\]<stdout>:port (\d+)", job.out.text)
                if port == own)
    assert "the job's own" in cluster.run(host, "alice", [PYTHON, "-c", ASK, "127.0.0.1", own], check=True).stdout
    job.signal(signal.SIGINT)
    assert job.end().rc == 130
