"""muster exec, shell and cp over the test hosts, and the table of ranks."""

import signal

import pytest
from cluster import testing
from conftest import BIN_DIR
from console import Watched

MUSTER = str(BIN_DIR / "muster")


@pytest.fixture
def job(hvdrun, cluster):
    job = Watched(hvdrun, cluster, args=["-np", "4", "-H", "n1:2,n2:2", "-x", "WORD=of the job", "sh", "-c",
                                         "echo up; exec sleep 1000"])
    job.out.wait_for("up", 4)
    yield job
    if job.command.poll() is None:
        job.signal(signal.SIGINT)
        assert job.end().rc == 130


def muster(cluster, *words, user="alice"):
    return cluster.run("head", user, [MUSTER, *words], timeout=60)


def test_a_command_runs_on_the_host_of_its_rank(cluster, job, no_leftovers):
    for rank, host in enumerate(["n1", "n1", "n2", "n2"]):
        result = muster(cluster, "exec", "-n", "-r", str(rank), "--", "sh", "-c", "echo $(hostname) $MUSTER_RANK $WORD")
        assert result.stdout == f"{host} {rank} of the job\n", result
    assert muster(cluster, "exec", "-n", "-r", "3", "--", "sh", "-c", "exit 42").returncode == 42
    missing = muster(cluster, "exec", "-n", "-r", "3", "--", "no-such-program")
    assert missing.returncode == 127 and "n2: " in missing.stderr, missing


def test_every_host_has_the_table_of_all_ranks(cluster, job, no_leftovers):
    tables = {muster(cluster, "exec", "-n", "-r", str(rank), "--", "sh", "-c", 'cat "$MUSTER_RANK_TABLE"').stdout
              for rank in (0, 3)}
    assert len(tables) == 1, tables
    lines = [line.split("\t") for line in tables.pop().splitlines()]
    assert [line[:3] for line in lines[1:]] == [["0", "0", "n1"], ["1", "1", "n1"], ["2", "0", "n2"], ["3", "1", "n2"]]
    addresses = {line[2]: line[3] for line in lines[1:]}
    connect = f"import socket; socket.create_connection(({addresses['n2']!r}, 22), 10)"  # sshd listens there
    reached = muster(cluster, "exec", "-n", "-r", "0", "--", "/usr/bin/python3", "-c", connect)
    assert addresses["n1"] != addresses["n2"] and reached.returncode == 0, (addresses, reached)


def test_files_go_to_and_from_a_host(cluster, job, no_leftovers):
    made = muster(cluster, "exec", "-n", "-r", "2", "--", "sh", "-c", "printf hello > /tmp/copied.$MUSTER_JOB_ID; "
                  "echo $MUSTER_JOB_ID")
    name = made.stdout.strip()
    shared = new_folder(cluster)
    copied = muster(cluster, "cp", f"{name}:2:/tmp/copied.{name}", f"{shared}/copied")
    assert copied.returncode == 0, copied
    assert cluster.run("head", "alice", ["cat", f"{shared}/copied"], timeout=20).stdout == "hello"
    back = muster(cluster, "cp", f"{shared}/copied", f"{name}:2:/tmp/again.{name}")
    assert back.returncode == 0, back
    shown = muster(cluster, "exec", "-n", "-r", "2", "--", "sh", "-c", f"cat /tmp/again.{name}; rm /tmp/*.{name}")
    assert shown.stdout == "hello", shown


def new_folder(cluster):
    return cluster.run("head", "alice", ["mktemp", "-d"], timeout=20).stdout.strip()


def test_others_cannot_reach_the_job(cluster, job, no_leftovers):
    name = muster(cluster, "exec", "-n", "-r", "0", "--", "printenv", "MUSTER_JOB_ID").stdout.strip()
    assert len(name) == 8
    for words in (["exec", name, "-n", "-r", "0", "--", "whoami"], ["shell", name, "-n", "-r", "0"],
                  ["cp", f"{name}:0:/etc/hostname", "/tmp/stolen"]):
        refused = muster(cluster, *words, user="bob")
        assert refused.returncode == 2 and refused.stdout == "", refused
        assert "no hvdrun of yours runs on this host" in refused.stderr, refused
    socket = next(cluster.path("head", "/tmp").glob(f"muster-*/job-{name}.sock"))
    address = f"unix:/tmp/{socket.parent.name}/{socket.name}"
    words = ["exec", name, "--launcher", address, "-n", "-r", "0", "--", "whoami"]
    assert muster(cluster, *words).stdout == "alice\n"
    refused = muster(cluster, *words, user="bob")
    assert refused.returncode != 0 and refused.stdout == "" and "ermission" in refused.stderr, refused


def test_a_command_ends_with_its_job(cluster, job, no_leftovers):
    command = cluster.start("head", "alice", [MUSTER, "exec", "-n", "-r", "3", "--", "sleep", "987"])
    assert testing.eventually(lambda: testing.strays(cluster, "987"), 20.0)
    job.signal(signal.SIGINT)
    assert job.end().rc == 130
    assert command.wait(timeout=20) != 0
    assert testing.eventually(lambda: not testing.strays(cluster, "987"), 20.0)


def test_commands_pass_through_relays(hvdrun, cluster, no_leftovers):
    job = Watched(hvdrun, cluster, args=["-np", "4", "-H", "n1,n2,n3,n4", "--fanout", "2", "sh", "-c",
                                         "echo up; exec sleep 1000"])
    job.out.wait_for("up", 4)
    for rank in range(4):
        command = [MUSTER, "exec", "-r", str(rank), "--", "sh", "-c", "hostname; wc -c"]
        result = cluster.run("head", "alice", command, input="x" * 500_000, timeout=60)
        assert result.stdout.split() == [f"n{rank + 1}", "500000"], result
    job.signal(signal.SIGINT)
    assert job.end().rc == 130
