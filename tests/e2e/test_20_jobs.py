"""muster jobs, status, events and kill: a foreground job seen and ended from another terminal."""

import json
import re
import signal

import pytest
from conftest import BIN_DIR
from console import Watched

MUSTER = str(BIN_DIR / "muster")
WAITS = "echo up $MUSTER_RANK; exec sleep 1000"


def muster(cluster, *args, user="alice"):
    return cluster.run("head", user, [MUSTER, *args], timeout=60)


def the_job(cluster):
    jobs = [json.loads(line) for line in muster(cluster, "jobs", "--json").stdout.splitlines()]
    assert len(jobs) == 1, jobs
    return jobs[0]


def sockets(cluster):
    return list(cluster.path("head", "/tmp").glob("muster-*/job-*.sock"))


@pytest.fixture
def job(hvdrun, cluster):
    job = Watched(hvdrun, cluster, args=["-np", "4", "-H", "n1:2,n2:2", "--name", "night", "sh", "-c", WAITS])
    job.out.wait_for("up", 4)
    yield job
    if job.command.poll() is None:
        job.signal(signal.SIGINT)
        assert job.end().rc == 130
        assert not sockets(cluster)


def test_seen_from_another_terminal(cluster, job, no_leftovers):
    listed = the_job(cluster)
    assert (listed["state"], listed["size"], listed["ranks"]) == ("JOB_STATE_RUNNING", 4, [])
    assert listed["command"] == ["sh", "-c", WAITS]
    status = json.loads(muster(cluster, "status", "--json").stdout)
    assert [(rank["host"], rank["state"]) for rank in status["ranks"]] == [
        (host, "RANK_STATE_RUNNING") for host in ("n1", "n1", "n2", "n2")]
    for rank in status["ranks"]:  # as the host sees them
        told = cluster.run(rank["host"], "alice", ["ps", "-o", "args=", "-p", rank["pid"]], check=True).stdout
        assert told.strip() == "sleep 1000"
    assert {host["name"]: host["up"] for host in status["hosts"]} == {"n1": True, "n2": True}
    line = muster(cluster, "jobs").stdout.splitlines()[1].split()
    assert line[0] == listed["id"] and "night" in line, line
    assert muster(cluster, "__complete", "kill", "ni").stdout == "night\tname of a job\n"
    assert listed["id"] in muster(cluster, "status", "night").stdout
    text = muster(cluster, "status", listed["id"][:3]).stdout
    assert f"job {listed['id']}: RUNNING for " in text and "4 ranks on 2 hosts" in text
    events = muster(cluster, "events").stdout
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6} [+-]\d{4} job \S+ starts, 4 ranks\n", events), events
    assert len(re.findall(r"rank \d runs, pid \d+\n", events)) == 4, events


def test_kill_ends_the_job_and_waits(cluster, job, no_leftovers):
    job_id = the_job(cluster)["id"]
    result = muster(cluster, "kill", job_id)
    assert (result.returncode, result.stdout) == (0, f"job {job_id} ended with exit code 143\n"), result
    ended = job.end()
    assert ended.rc == 143 and "hvdrun: stopping all ranks, as muster kill asked\n" in ended.stderr, ended
    assert not sockets(cluster)
    assert muster(cluster, "jobs").stdout == ""
    result = muster(cluster, "kill", job_id)
    assert result.returncode == 2 and "no hvdrun of yours runs on this host" in result.stderr, result


def test_kill_at_once(hvdrun, cluster, no_leftovers):
    job = Watched(hvdrun, cluster, args=["-H", "n1", "--kill-grace", "5m", "sh", "-c",
                                         "trap '' TERM; echo up; while :; do sleep 0.2; done"])
    job.out.wait_for("up")
    ended = json.loads(muster(cluster, "kill", "--now", "--json", the_job(cluster)["id"]).stdout)
    assert (ended["state"], ended["exit_code"]) == ("JOB_STATE_KILLED", 143), ended
    assert job.end().rc == 143


def test_signal_reaches_the_ranks(hvdrun, cluster, no_leftovers):
    job = Watched(hvdrun, cluster, args=["-np", "2", "-H", "n1,n2", "sh", "-c",
                                         "trap 'echo got it; exit 0' USR1; echo up; while :; do sleep 0.1; done"])
    job.out.wait_for("up", 2)
    before = json.loads(muster(cluster, "kill", "--signal", "USR1", "--json", the_job(cluster)["id"]).stdout)
    assert before["state"] == "JOB_STATE_RUNNING", before
    result = job.end()
    assert result.rc == 0 and result.stdout.count("got it") == 2, result


def test_events_are_followed_through_restarts(hvdrun, cluster, no_leftovers):
    program = "echo up; [ $MUSTER_ATTEMPT = 1 ] && exec sleep 1000; read line < $HOME/go; exit 4"
    cluster.run("n1", "alice", ["mkfifo", "/home/alice/go"], check=True)
    try:
        job = Watched(hvdrun, cluster, argv=["muster", "torchrun", "--no-python", "-H", "n1", "--max-restarts=2", "sh",
                                             "-c", program])
        job.out.wait_for("up")
        watched = Watched(hvdrun, cluster, argv=["muster", "events", "-f"])
        watched.out.wait_for("rank 0 runs")
        cluster.run("n1", "alice", ["sh", "-c", "echo > go"], check=True)
        watched.out.wait_for("restart 1 after rank 0: exit code 4")
        watched.out.wait_for("rank 0 runs", 2)
        assert the_job(cluster)["attempt"] == 1
        assert muster(cluster, "kill", the_job(cluster)["id"]).returncode == 0
        assert job.end().rc == 143
        followed = watched.end()
        assert followed.rc == 0 and followed.stdout.splitlines()[-1].endswith("ended with exit code 143"), followed
    finally:
        cluster.run("n1", "alice", ["rm", "-f", "/home/alice/go"], check=True)


def test_others_see_and_end_nothing(cluster, job, no_leftovers):
    job_id = the_job(cluster)["id"]
    assert muster(cluster, "jobs", user="bob").stdout == ""
    assert muster(cluster, "kill", job_id, user="bob").returncode == 2
    assert the_job(cluster)["state"] == "JOB_STATE_RUNNING"


def test_a_killed_launcher_leaves_no_job(cluster, job, no_leftovers):
    job.signal(signal.SIGKILL)
    job.end()
    assert len(sockets(cluster)) == 1
    result = muster(cluster, "jobs")
    assert (result.returncode, result.stdout) == (0, ""), result
    assert not sockets(cluster)


def test_mistakes(cluster, no_leftovers):
    for words, said in [(["kill"], "which job? muster jobs lists them"),
                        (["kill", "--signal", "FOO", "x"], "unknown signal FOO"),
                        (["jobs", "x"], "muster status shows one job"),
                        (["status", "a", "b"], "one job at a time"),
                        (["status", "--jsn"], "--json"),
                        (["evnts"], "did you mean events?")]:
        result = muster(cluster, *words)
        assert result.returncode == 2 and said in result.stderr, (words, result)
