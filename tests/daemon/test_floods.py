"""Strangers who connect and stay silent, and a launcherd without a free descriptor: rightful callers and agents come in
at once, or as soon as there is a descriptor again."""
import os
import pathlib
import resource
import select
import socket
import sqlite3
import time

import conftest
import pytest
from test_certificates import Authority, client_of


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path, "ca")


@pytest.fixture
def served(launcherd, authority):
    """A launcherd that is asked by TCP as well, and its port."""
    certificate, key = authority.issue("server", "DNS:localhost,IP:127.0.0.1")
    daemon = launcherd("--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key, "--client-ca",
                       authority.file("pem"), "--i-know-jobs-run-as-root", waits=False)
    return daemon, int(daemon.line_with("serving").split("127.0.0.1:")[1].split()[0])


def descriptors(daemon):
    return os.listdir(f"/proc/{daemon.process.pid}/fd")


def limit_descriptors(daemon, soft):
    _, hard = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (soft, hard))


def listening_ports(daemon):
    """TCP ports at which the process listens."""
    inodes = set()
    for number in descriptors(daemon):
        try:
            target = os.readlink(f"/proc/{daemon.process.pid}/fd/{number}")
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[len("socket:["):-1])
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{daemon.process.pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return ports


def connect(port, says=b""):
    one = socket.create_connection(("127.0.0.1", port), timeout=conftest.PATIENCE)
    one.sendall(says)
    return one


def capabilities(stubs, authority, port, name):
    api = client_of(stubs, authority, port, authority.issue(name, "URI:muster://role/watch"))
    return api.api.GetCapabilities(stubs.launcher.GetCapabilitiesRequest(), timeout=conftest.PATIENCE)


@pytest.mark.parametrize("says", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["silent", "half a greeting"])
def test_slow_strangers_do_not_keep_a_caller_waiting(stubs, authority, served, says):
    daemon, port = served
    limit_descriptors(daemon, 1024)  # of which strangers may have 128, twice
    before = len(descriptors(daemon))
    strangers = [connect(port, says) for _ in range(500)]
    began = time.monotonic()
    assert capabilities(stubs, authority, port, "peer").pid == daemon.process.pid
    assert time.monotonic() - began < 10  # in which a stranger's time is up
    assert len(descriptors(daemon)) - before < 2 * 128 + 20
    strangers[0].settimeout(conftest.PATIENCE)
    try:
        assert strangers[0].recv(1) == b""  # the oldest gives way
    except ConnectionResetError:
        pass


def test_a_stranger_has_ten_seconds(served):
    _, port = served
    with connect(port) as stranger:
        assert stranger.recv(1) == b""


def test_callers_come_in_again_when_descriptors_are_free(stubs, authority, served):
    daemon, port = served
    assert capabilities(stubs, authority, port, "before").pid == daemon.process.pid
    limit_descriptors(daemon, 3)
    with connect(port):
        daemon.line_with("--listen 127.0.0.1:0: cannot accept a connection: Too many open files")
    limit_descriptors(daemon, 1024)
    assert capabilities(stubs, authority, port, "after").pid == daemon.process.pid


def test_agents_come_in_again_when_descriptors_are_free(launcherd):
    daemon = launcherd()
    api = daemon.client()
    api.api.GetCapabilities(api.stubs.launcher.GetCapabilitiesRequest(), timeout=conftest.PATIENCE)  # is connected
    ports = listening_ports(daemon)
    assert ports
    limit_descriptors(daemon, 3)
    strangers = [connect(port) for port in ports]
    daemon.line_with("the control port: cannot accept a connection: Too many open files")
    limit_descriptors(daemon, 1024)
    assert api.wait(api.submit(["sh", "-c", "exit 3"])).exit_code == 3
    for stranger in strangers:
        stranger.close()


@pytest.fixture
def many_sockets():
    """This process may have more sockets than it usually may."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_more_strangers_than_descriptors_keep_no_agent_out(launcherd, many_sockets):
    daemon = launcherd()
    api = daemon.client()
    api.api.GetCapabilities(api.stubs.launcher.GetCapabilitiesRequest(), timeout=conftest.PATIENCE)  # is connected
    ports = listening_ports(daemon)
    limit_descriptors(daemon, 1024)
    strangers = [connect(port) for port in ports for _ in range(1200)]
    began = time.monotonic()
    assert api.wait(api.submit(["sh", "-c", "exit 3"])).exit_code == 3
    assert time.monotonic() - began < 15  # silent strangers give way before their time is up
    for stranger in strangers:
        stranger.close()


def test_an_end_is_stored_after_another_process_had_the_lock(launcherd, tmp_path):
    daemon = launcherd()
    api = daemon.client()
    os.mkfifo(tmp_path / "gate")
    job = api.submit(["sh", "-c", f"read x < {tmp_path}/gate; exit 7"])
    api.until(job, "RUNNING")
    rank = os.pidfd_open(api.get(job).ranks[0].pid)
    with (tmp_path / "gate").open("w") as gate:
        administrator = sqlite3.connect(daemon.state / "jobs.sqlite", isolation_level=None)
        administrator.execute("BEGIN IMMEDIATE")
        gate.write("on\n")
    assert select.select([rank], [], [], conftest.PATIENCE)[0]  # it has ended
    os.close(rank)
    # Each takes as long as the store waits for the lock: what the job's end was to write has failed by then.
    for _ in range(3):
        with pytest.raises(Exception, match="is locked by another process"):
            api.submit(["true"])
    administrator.execute("COMMIT")
    administrator.close()
    assert api.wait(job).exit_code == 7
    assert api.state(job) == "FAILED"
