"""muster cleanup: what jobs that were killed whole, launcher, agents and wardens, have left on hosts; and nothing else."""

import json
import os
import random
import signal
import time
import uuid

import pytest
from cluster import testing
from conftest import BIN_DIR, REPOSITORY

MUSTER = str(BIN_DIR / "muster")
COMMAND = ["/usr/bin/python3", "-IS", str(REPOSITORY / "tests/programs/stray_tree.py")]
HOSTS = "n1,n2,localhost"
CHILDREN = 4
ROUNDS, BATCH = 20, 5
LEASE = 15.0
PATIENCE = 30.0


def cleanup(cluster, *args, hosts=HOSTS, user="alice"):
    result = cluster.run("head", user, [MUSTER, "cleanup", "-H", hosts, *args], timeout=PATIENCE * 2)
    reports = []
    if "--json" in args:
        reports = [json.loads(line) for line in result.stdout.splitlines()]
    return result, reports


def remains(reports, kind="PROCESS"):
    return {(report["host"], each["pid"]) for report in reports for each in report["remains"]
            if each["kind"] == f"REMAINS_KIND_{kind}"}


def supervisors(cluster, user="alice"):
    """{key: Process} of this user's launchers, agents and wardens on all hosts."""
    return {process.key: process for found in cluster.all_processes().values() for process in found
            if process.uid == cluster.uid(user)
            and (process.comm in ("hvdrun", "muster-warden") or "--stdio" in process.argv)}


def with_token(cluster, token):
    """{(host, pid as the host numbers it)}"""
    return {(host, process.inner_pid) for host, found in cluster.all_processes().items() for process in found
            if token in process.argv and process.comm != "hvdrun" and process.state != "Z"}


class Job:
    """alice's, on n1 and n2."""

    def __init__(self, hvdrun, cluster, spared=()):
        self.cluster, self.spared = cluster, set(spared)
        self.token = "token-" + uuid.uuid4().hex
        self.command = hvdrun.start(["-np", "4", "-H", "n1:2,n2:2", "--contain", "subreaper", *COMMAND, self.token, 600],
                                    on=cluster)

    def is_ready(self):
        """All are there, and none that only forks one of them: a rank has its name when its children live on."""
        processes = [process for found in self.cluster.all_processes().values() for process in found
                     if self.token in process.argv and process.comm != "hvdrun" and process.state != "Z"]
        ranks = [process for process in processes if process.comm == "stray-rank"]
        return len(ranks) == 4 and len(processes) == 4 * (1 + CHILDREN)

    def wait_ready(self):
        assert testing.eventually(lambda: self.is_ready() or self.command.ended(), PATIENCE)
        assert not self.command.ended()
        return self

    @property
    def job_id(self):
        return next(process.environ["MUSTER_JOB_ID"] for process in self.cluster.processes("n1")
                    if self.token in process.argv and "MUSTER_JOB_ID" in process.environ)

    def kill_whole(self):
        """Launcher, agents and wardens at once: stopped first, so that none sees another's end. Wardens end first: the end
        of its agent continues a warden."""
        found = sorted(supervisors(self.cluster).items(), key=lambda item: item[1].comm != "muster-warden")
        targets = {key: process.pid for key, process in found if key not in self.spared}
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in targets.values():
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
        self.command.wait()
        assert testing.eventually(lambda: not targets.keys() & supervisors(self.cluster).keys(), PATIENCE)

    def stop(self):
        self.command.send_signal(signal.SIGINT)
        assert self.command.wait(PATIENCE) == 130


def until_clean(cluster, living):
    """Leases pass first; a job whose agent came up after the kill ends by itself, and lives until then."""
    seen = []

    def is_clean():
        result, reports = cleanup(cluster, "--json")
        seen.append(reports)
        return result.returncode == 0 and {job for report in reports for job in report["alive_jobs"]} == {living.job_id}

    assert testing.eventually(is_clean, LEASE + PATIENCE), seen[-1]


@pytest.fixture
def living(hvdrun, cluster):
    """A job of alice's that lives on the same hosts, and stays as it is."""
    job = Job(hvdrun, cluster).wait_ready()
    before = with_token(cluster, job.token), set(supervisors(cluster))
    yield job
    assert (with_token(cluster, job.token), set(supervisors(cluster))) == before
    job.stop()


def test_exactly_what_a_dead_job_has_left(hvdrun, cluster, no_leftovers, living):
    job = Job(hvdrun, cluster, supervisors(cluster)).wait_ready()
    dead, lives = job.job_id, living.job_id
    job.kill_whole()
    assert testing.eventually(lambda: len(with_token(cluster, job.token)) == 4 * (CHILDREN - 1)
                              or len(with_token(cluster, job.token)) == 4 * CHILDREN, 5)
    result, reports = cleanup(cluster, "--dry-run", "--json")
    if any(report["waiting_jobs"] for report in reports):
        assert result.returncode == 1 and not remains(reports), result
    # The lease passes; --dry-run shows what is there and leaves it.
    seen = []
    assert testing.eventually(
        lambda: seen.append(cleanup(cluster, "--dry-run", "--json")[1]) or not any(
            report["waiting_jobs"] for report in seen[-1]), LEASE + PATIENCE), seen[-1]
    strays = with_token(cluster, job.token)
    assert strays
    result, reports = cleanup(cluster, "--dry-run", "--json")
    assert result.returncode == 1 and remains(reports) == strays, result
    assert {host for host, _ in remains(reports, "SESSION")} == {"n1", "n2"}, result
    assert {host for host, _ in remains(reports, "SOCKET")} == {"localhost"}, result
    assert with_token(cluster, job.token) == strays
    for report in reports:
        if report["host"] in ("n1", "n2"):
            assert report["alive_jobs"] == [lives], report
    # The job that lives is not touched when it is named either.
    result, _ = cleanup(cluster, "--job", lives)
    assert result.returncode == 1 and f"n1: job {lives} lives: end it with its hvdrun" in result.stdout, result
    # The beginning of an id is enough.
    result, reports = cleanup(cluster, "--json", "--job", dead[:6])
    assert result.returncode == 0 and remains(reports) == strays, result
    assert {each["state"] for report in reports for each in report["remains"]} == {"REMAINS_STATE_GONE"}
    assert not with_token(cluster, job.token)
    result, _ = cleanup(cluster)
    assert result.returncode == 0 and "3 hosts: nothing found, 1 living and not touched" in result.stdout, result


def test_kills_at_random_moments(hvdrun, cluster, no_leftovers, living):
    seed = int(time.time())
    print(f"seed {seed}")
    moments = random.Random(seed)
    for _ in range(ROUNDS // BATCH):
        jobs = []
        for _ in range(BATCH):
            job = Job(hvdrun, cluster, supervisors(cluster))
            testing.eventually(job.command.ended, moments.uniform(0.05, 2.5))
            job.kill_whole()
            jobs.append(job)
        until_clean(cluster, living)
        for job in jobs:
            assert not with_token(cluster, job.token), f"seed {seed}"


def test_a_host_that_is_down_is_unknown(cluster, no_leftovers):
    cluster.cut("n3", "drop")
    result, reports = cleanup(cluster, "--json", "--start-timeout", "4", hosts="n1,n3")
    assert result.returncode == 1, result
    assert [bool(report["unreachable"]) for report in reports] == [False, True], result
    result, _ = cleanup(cluster, "--start-timeout", "4", hosts="n1,n3")
    assert "\nn3: unknown, not clean: " in "\n" + result.stdout and "1 unknown" in result.stdout, result
    assert cleanup(cluster, "--start-timeout", "4", hosts="n3")[0].returncode == 125


def test_usage(cluster, no_leftovers):
    result = cluster.run("head", "alice", [MUSTER, "cleanup"], timeout=PATIENCE)
    assert result.returncode == 0 and result.stdout == "1 host: nothing found\n", result
    assert cluster.run("head", "alice", [MUSTER, "cleanup", "--job", "No"], timeout=PATIENCE).returncode == 2


def test_agents_of_old_builds_are_listed_and_pruned(hvdrun, cluster):
    """The agent of this build stays, and one that was used lately. Others go by the command, and by a new build."""
    assert hvdrun(["-np", "1", "-H", "n1:1", "true"]).rc == 0
    folder = cluster.path("n1", "/home/alice/.cache/muster")
    ages = {"agent-0000000000000001-x86_64": 3600, "agent-0000000000000002-x86_64": 26 * 3600,
            ".agent-0000000000000003-x86_64.abcd": 26 * 3600}
    for name, age in ages.items():
        (folder / name).write_bytes(b"\x7fELF" + b"x" * 996)
        os.chown(folder / name, cluster.uid("alice"), -1)
        os.utime(folder / name, (time.time() - age,) * 2)

    def agents(*args, code=0):
        result = cluster.run("head", "alice", [MUSTER, "agents", *args], timeout=PATIENCE)
        assert result.returncode == code, result
        return result.stdout

    (folder / "agent-notes.txt").write_text("mine")
    os.utime(folder / "agent-notes.txt", (1, 1))
    listed = agents("-H", "n1")
    for name, state in zip(ages, ("in use", "old", "old")):
        assert any(name in line and f" {state} " in line for line in listed.splitlines()), listed
    assert sum(" this build " in line for line in listed.splitlines()) == 1, listed
    report = json.loads(agents("prune", "-H", "n1,n7", "--json", code=1).splitlines()[0])
    assert {os.path.basename(each["path"]) for each in report["agents"] if each.get("is_removed")} == set(list(ages)[1:])
    assert "3 removed" not in agents("prune", "-H", "n1")
    left = {path.name for path in folder.iterdir()}
    assert "agent-0000000000000001-x86_64" in left and len(left & set(ages)) == 1 and len(left) >= 2, left
    # A new build stores its agent: what nobody used for a month goes.
    os.utime(folder / "agent-0000000000000001-x86_64", (time.time() - 31 * 24 * 3600,) * 2)
    own = next(path for path in folder.iterdir() if path.name.startswith("agent-") and path.stat().st_size > 1000)
    own.unlink()
    assert hvdrun(["-np", "1", "-H", "n1:1", "true"]).rc == 0
    assert not (folder / "agent-0000000000000001-x86_64").exists() and own.exists()
    assert (folder / "agent-notes.txt").read_text() == "mine"
    (folder / "agent-notes.txt").unlink()
