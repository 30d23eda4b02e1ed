"""Hosts that lack the agent: how it gets there, and what stays there when something fails on the way."""

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess

import pytest
from cluster import testing
from conftest import BIN_DIR

FOLDER = "/home/alice/.cache/muster"
HOSTS = ["n1", "n2", "n3", "n4"]
FOUR = ["-np", "4", "-H", ",".join(HOSTS)]
PATIENCE = 60.0


def files(cluster, host, folder=FOLDER):
    found = cluster.path(host, folder)
    return sorted(path.name for path in found.iterdir()) if found.exists() else []


def is_whole(cluster, host, folder=FOLDER):
    """One file: the agent, as it was built."""
    names = files(cluster, host, folder)
    hashes = [hashlib.sha256(cluster.path(host, f"{folder}/{name}").read_bytes()).digest() for name in names]
    return hashes == [hashlib.sha256((BIN_DIR / "muster-agent").read_bytes()).digest()] and names[0].startswith("agent-")


def remove_agents(cluster, hosts):
    for host in hosts:
        cluster.run(host, "root", ["rm", "-rf", FOLDER], check=True)


@pytest.fixture
def fresh(cluster):
    """The hosts without agents, before and after."""
    remove_agents(cluster, cluster.nodes)
    yield cluster
    cluster.restore()
    remove_agents(cluster, cluster.nodes)


def bytes_from_head(cluster):
    counters = cluster.run("head", "root", ["sh", "-c", "cat /sys/class/net/[!l]*/statistics/tx_bytes"], check=True).stdout
    return sum(map(int, counters.split()))


def test_the_agent_travels_compressed(hvdrun, fresh, no_leftovers):
    before = bytes_from_head(fresh)
    result = hvdrun([*FOUR, "--verbose", "true"])
    sent = bytes_from_head(fresh) - before
    assert result.rc == 0, result
    assert result.stderr.count("sent to its cache first") == 4 and "trying SFTP" not in result.stderr, result
    assert all(is_whole(fresh, host) for host in HOSTS), [files(fresh, host) for host in HOSTS]
    assert sent < 0.75 * 4 * (BIN_DIR / "muster-agent").stat().st_size
    again = hvdrun([*FOUR, "--verbose", "true"])
    assert again.stderr.count("found in its cache") == 4, again


def test_another_folder(hvdrun, fresh, no_leftovers):
    result = hvdrun([*FOUR, "--verbose", "--agent-dir", "/var/tmp/agents-of-alice", "true"])
    assert result.rc == 0 and result.stderr.count("sent to its cache first") == 4, result
    assert all(is_whole(fresh, host, "/var/tmp/agents-of-alice") for host in HOSTS)
    for host in fresh.nodes:
        fresh.run(host, "root", ["rm", "-rf", "/var/tmp/agents-of-alice"], check=True)


def test_a_disk_that_is_full_while_the_agent_is_unpacked(hvdrun, fresh, no_leftovers):
    """The folder takes the unpacker, but not the agent."""
    size = (BIN_DIR / "muster-unpack").stat().st_size + (2 << 20)
    assert size < (BIN_DIR / "muster-agent").stat().st_size
    fresh.run("n2", "alice", ["mkdir", "-p", FOLDER], check=True)
    fresh.run("n2", "root", ["mount", "-t", "tmpfs", "-o", f"size={size},uid={fresh.uid('alice')},mode=700", "none", FOLDER],
              check=True)
    try:
        result = hvdrun([*FOUR, "touch", "/tmp/has-run"])
        left = fresh.run("n2", "root", ["ls", "-A", FOLDER], check=True).stdout
    finally:
        fresh.run("n2", "root", ["umount", FOLDER], check=True)
    assert result.rc == 125 and left == "", (result, left)
    assert "host n2: no space left for the agent in ~/.cache/muster" in result.stderr and "--agent-dir" in result.stderr, result
    assert not any(fresh.path(host, "/tmp/has-run").exists() for host in HOSTS)


def test_a_launcher_killed_while_it_sends_leaves_nothing(hvdrun, fresh, no_leftovers):
    fresh.rate("n1", "8mbit")
    job = hvdrun.start(["-np", "1", "-H", "n1", "true"])
    assert testing.eventually(lambda: any(name.endswith("_new") for name in files(fresh, "n1")), PATIENCE), files(fresh, "n1")
    job.kill()
    assert testing.eventually(lambda: files(fresh, "n1") == [], PATIENCE), files(fresh, "n1")
    fresh.rate("n1", None)
    result = hvdrun(["-np", "1", "-H", "n1", "--verbose", "true"])
    assert result.rc == 0 and "sent to its cache first" in result.stderr, result
    assert is_whole(fresh, "n1")


def test_a_killed_unpacker_costs_a_second_way(hvdrun, fresh, no_leftovers):
    fresh.rate("n1", "8mbit")
    job = hvdrun.start(["-np", "1", "-H", "n1", "--verbose", "true"])
    assert testing.eventually(lambda: any(name.endswith("_new") for name in files(fresh, "n1")), PATIENCE)
    for process in fresh.processes("n1"):
        if process.argv and "/.agent-" in process.argv[0]:
            os.kill(process.pid, signal.SIGKILL)
    fresh.rate("n1", None)
    result = hvdrun.finish(job)
    assert result.rc == 0 and "sending the compressed agent failed" in result.stderr, result
    assert is_whole(fresh, "n1"), files(fresh, "n1")


def own_programs(cluster):
    """A copy of the agent's files on head; returns the folder."""
    folder = cluster.path("head", "/tmp/own-agent")
    folder.mkdir()
    for name in ("muster-agent", "muster-agent.zst", "muster-unpack"):
        shutil.copy(BIN_DIR / name, folder / name)
    return folder


@pytest.mark.parametrize("damage", ["bytes", "other"])
def test_a_damaged_compressed_agent_is_refused(hvdrun, fresh, no_leftovers, damage):
    folder = own_programs(fresh)
    packed = folder / "muster-agent.zst"
    if damage == "bytes":
        content = bytearray(packed.read_bytes())
        content[len(content) // 2] ^= 0xFF
        packed.write_bytes(content)
    else:  # well-formed, and of the right size
        agent = bytearray((folder / "muster-agent").read_bytes())
        agent[-1] ^= 0xFF
        packed.write_bytes(subprocess.run(["zstd", "-q", "-1", "-c"], input=agent, stdout=subprocess.PIPE, check=True).stdout)
    try:
        result = hvdrun([*FOUR, "--verbose", "true"], env={"MUSTER_AGENT_PATH": "/tmp/own-agent/muster-agent"})
    finally:
        shutil.rmtree(folder)
    assert result.rc == 0, result
    # Whether changed bytes still form a frame depends on where in it they are. The hash tells in either case.
    reasons = ["is damaged", "the agent has the hash"] if damage == "bytes" else ["the agent has the hash"]
    assert result.stderr.count("sending the compressed agent failed") == 4, result
    assert any(reason in result.stderr for reason in reasons), result
    assert all(is_whole(fresh, host) for host in HOSTS)


def test_a_host_without_head_gets_the_agent_by_sftp(hvdrun, fresh, no_leftovers):
    fresh.run("n2", "root", ["mount", "--bind", "/bin/false", "/usr/bin/head"], check=True)
    try:
        result = hvdrun([*FOUR, "--verbose", "true"])
    finally:
        fresh.run("n2", "root", ["umount", "/usr/bin/head"], check=True)
    assert result.rc == 0 and result.stderr.count("trying SFTP") == 1, result
    assert all(is_whole(fresh, host) for host in HOSTS)


def test_two_launchers_at_once(hvdrun, fresh, no_leftovers):
    jobs = [hvdrun.start([*FOUR, "true"]) for _ in range(2)]
    results = [hvdrun.finish(job) for job in jobs]
    assert [result.rc for result in results] == [0, 0], [str(result) for result in results]
    assert all(is_whole(fresh, host) for host in HOSTS), [files(fresh, host) for host in HOSTS]


@pytest.mark.parametrize("backend", ["libssh", "ssh"])
def test_hosts_with_one_home_receive_the_agent_once(hvdrun, make_cluster, backend):
    shared = make_cluster(4, home="shared")
    remove_agents(shared, ["n1"])
    result = hvdrun([*FOUR, "--verbose", "--ssh-backend", backend, "true"], on=shared)
    assert result.rc == 0 and result.stderr.count("sent to its cache first") == 1, result
    assert is_whole(shared, "n1")


TWELVE = [f"n{i}" for i in range(1, 13)]
JOB = ["-np", "12", "-H", ",".join(TWELVE)]
SEEDS = 4  # as many of twelve hosts serve the agent to the others


@pytest.fixture
def many(make_cluster):
    hosts = make_cluster(12)
    remove_agents(hosts, TWELVE)
    yield hosts
    hosts.restore()
    remove_agents(hosts, TWELVE)


def seeds(cluster):
    """{host: the processes that serve the agent there}"""
    return {host: found for host in TWELVE
            if (found := [process for process in cluster.processes(host) if process.comm == "muster-seed"])}


def test_of_many_hosts_some_serve_the_others(hvdrun, many, no_leftovers):
    before = bytes_from_head(many)
    result = hvdrun([*JOB, "--verbose", "true"], on=many)
    sent = bytes_from_head(many) - before
    assert result.rc == 0 and result.stderr.count("sent to its cache first") == 12, result
    assert "fetching the agent" not in result.stderr and "trying SFTP" not in result.stderr, result
    assert all(is_whole(many, host) for host in TWELVE), [files(many, host) for host in TWELVE]
    sizes = {name: (BIN_DIR / name).stat().st_size for name in ("muster-agent.zst", "muster-unpack")}
    # The rest: log-ins, certificates, and what the job itself needs.
    assert sent < SEEDS * sizes["muster-agent.zst"] + 12 * sizes["muster-unpack"] + 12 * 300_000, (sent, sizes)
    assert testing.eventually(lambda: not seeds(many), 10), seeds(many)  # they end with the agents


def test_where_hosts_cannot_reach_each_other_the_launcher_sends_the_agent(hvdrun, many, no_leftovers):
    for host in TWELVE:
        many.only_ports(host)
    result = hvdrun([*JOB, "--verbose", "true"], on=many)
    assert result.rc == 0 and result.stderr.count("sent to its cache first") == 12, result
    assert "failed (no connection within 2000 ms), sending it from here" in result.stderr, result
    assert all(is_whole(many, host) for host in TWELVE)
    assert result.elapsed < 40


def test_seeds_that_are_killed_while_they_serve(hvdrun, many, no_leftovers):
    for host in TWELVE:
        many.rate(host, "40mbit")
    job = hvdrun.start([*JOB, "--verbose", "true"], on=many)
    assert testing.eventually(lambda: len(seeds(many)) >= 1, PATIENCE)
    killed = 0
    while job.poll() is None and killed < 60:
        for host, found in seeds(many).items():
            for process in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
                    killed += 1
    for host in TWELVE:
        many.rate(host, None)
    result = hvdrun.finish(job)
    assert result.rc == 0 and killed > 0, result
    assert all(is_whole(many, host) for host in TWELVE), [files(many, host) for host in TWELVE]


# Serves one peer: waits for the token, then sends what it is told and stays silent.
SERVE = """
import socket, sys
listener = socket.create_server(("0.0.0.0", 0))
print(listener.getsockname()[1], flush=True)
peer, _ = listener.accept()
peer.recv(64, socket.MSG_WAITALL)
peer.sendall(b"x" * int(sys.argv[1]))
sys.stdin.read()
"""


@pytest.mark.parametrize("sent,reason", [("full", "the agent has the hash"), ("half", "nothing arrived for 3000 ms")])
def test_a_seed_with_wrong_bytes_or_none_is_not_trusted(fresh, no_leftovers, sent, reason):
    """muster-unpack by itself, with a launcher and a seed that this test plays."""
    agent = (BIN_DIR / "muster-agent").read_bytes()
    packed = (BIN_DIR / "muster-agent.zst").read_bytes()
    fresh.run("n1", "alice", ["mkdir", "-p", FOLDER], check=True)
    fresh.run("n1", "alice", ["cp", str(BIN_DIR / "muster-unpack"), f"{FOLDER}/.agent-x"], check=True)
    size = len(agent) if sent == "full" else len(agent) // 2
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    seed = fresh.start("n2", "alice", ["/usr/bin/python3", "-c", SERVE, str(size)], **pipes)
    unpacker = fresh.start("n1", "alice", [f"{FOLDER}/.agent-x", "agent-x", "--version"], **pipes)
    try:
        assert unpacker.stdout.readline() == b"MUSTER-STEP source\n"
        port = seed.stdout.readline().decode().strip()
        digest = hashlib.sha256(agent).hexdigest()
        unpacker.stdin.write(f"fetch {digest} {len(agent)} {'7' * 64} {fresh.address('n2')} {port}\n".encode())
        unpacker.stdin.flush()
        line = unpacker.stdout.readline().decode()
        assert line.startswith(f"MUSTER-STEP source {reason}"), line
        assert "agent-x" not in files(fresh, "n1"), files(fresh, "n1")
        unpacker.stdin.write(f"unpack {digest} {len(agent)} {len(packed)}\n".encode() + packed)
        unpacker.stdin.flush()
        assert unpacker.stdout.readline() == b"MUSTER-STEP stored\n"
        assert unpacker.stdout.readline().startswith(b"muster-agent ")
        assert is_whole(fresh, "n1")
    finally:
        for command in (seed, unpacker):
            command.kill()
            command.communicate()
