"""launcherd, agents and links that go away while jobs run: jobs do not notice, or fail with the host's name; nothing is
lost, doubled, started twice or left behind."""

import os
import random
import re
import signal
import subprocess
import time

import pytest
from launcherd_user import Launcherd

KILLS = int(os.environ.get("MUSTER_KILLS", "5"))
LINES = 120
STARTS = "/tmp/starts"
# Says that it starts in a file of its host, then writes numbered lines, and ends with what it was told.
COUNTS = (f"echo $MUSTER_JOB_ID.$MUSTER_RANK >> {STARTS}; i=0; "
          f"while [ $i -lt {LINES} ]; do echo line $i; i=$((i+1)); sleep 0.02; done; exit $1")


@pytest.fixture
def launcherd(hvdrun, cluster, no_leftovers):
    daemon = Launcherd(hvdrun, cluster)
    yield daemon
    daemon.close()
    for host in cluster.nodes:
        cluster.run(host, "alice", ["rm", "-f", STARTS], check=True)


def agent_on(cluster, host):
    """The one whose parent is none of them: others are its nursery and its wardens."""
    agents = {process.pid: process for process in cluster.processes(host)
              if process.argv[-1:] == ("--stdio",) and process.uid == cluster.uid("alice")}
    first = [process for process in agents.values() if process.ppid not in agents]
    assert len(first) == 1, agents
    return first[0]


def check_output(launcherd, job, ranks):
    """Every line of every rank once and in its order."""
    lines = {rank: [] for rank in range(ranks)}
    for line in launcherd.asked("logs", job).splitlines():
        rank, text = re.fullmatch(r"\[(\d+)\]<stdout>:(.*)", line).groups()
        lines[int(rank)].append(text)
    for rank in range(ranks):
        assert lines[rank] == [f"line {i}" for i in range(LINES)], f"job {job}, rank {rank}: {lines[rank]}"


def starts(cluster):
    found = []
    for host in cluster.nodes:
        found += cluster.run(host, "alice", ["sh", "-c", f"cat {STARTS} 2>/dev/null || true"]).stdout.split()
    return sorted(found)


def submit_through(launcherd, number, *args):
    """Again and again until a launcherd answers: the request's id makes one job of all of them."""
    result = launcherd.muster("submit", "--request-id", f"request-{number}", *args)
    return result.stdout.strip() if result.returncode == 0 else None


def test_killed_at_random_moments(launcherd, cluster):
    seed = int(os.environ.get("MUSTER_SEED", time.time_ns() % 1_000_000))
    print("MUSTER_SEED", seed)
    chance = random.Random(seed)
    jobs = {}  # id: (ranks, exit code)
    number = 0
    for _ in range(KILLS):
        for _ in range(3):
            ranks, code = chance.choice([1, 2, 4]), chance.choice([0, 0, 3])
            args = ["-np", str(ranks), "sh", "-c", COUNTS, "sh", str(code)]
            job = submit_through(launcherd, number, *args)
            assert job == submit_through(launcherd, number, *args)
            jobs[job] = (ranks, code)
            number += 1
        time.sleep(chance.random() * 1.5)
        launcherd.die()
        time.sleep(chance.random() * 0.5)
        launcherd.come_back()
    assert len(jobs) == 3 * KILLS
    for job, (ranks, code) in jobs.items():
        ended = launcherd.watch("wait", job)
        try:
            ended = ended.end(120)
        except subprocess.TimeoutExpired:
            pytest.fail(f"it does not end: {launcherd.asked('status', job)} {launcherd.asked('events', job)}")
        # With a failure of one rank the others are stopped, and their lines end where they were.
        assert ended.rc == code, (job, launcherd.asked("status", job), launcherd.asked("events", job))
        if code == 0 or ranks == 1:
            check_output(launcherd, job, ranks)
    expected = sorted(f"{job}.{rank}" for job, (ranks, _) in jobs.items() for rank in range(ranks))
    assert starts(cluster) == expected, "each rank was started once"


def test_what_ends_meanwhile(launcherd, cluster):
    """Jobs that end while there is no launcherd have their true exit codes and all of their output."""
    jobs = {launcherd.submit("-np", "2", "sh", "-c", COUNTS, "sh", str(code)): code for code in (0, 0, 7)}
    for job in jobs:
        launcherd.watch("logs", "-f", job).out.wait_for("line 3")
    launcherd.die()
    ranks_end = time.monotonic() + 60
    while any("sh" == process.comm and STARTS in " ".join(process.argv)
              for host in cluster.nodes for process in cluster.processes(host)):
        assert time.monotonic() < ranks_end, "ranks still run"
    launcherd.come_back()
    for job, code in jobs.items():
        assert launcherd.muster("wait", job).returncode == code
        if code == 0:
            check_output(launcherd, job, 2)
    assert len(starts(cluster)) == 6


def test_an_agent_that_is_killed(launcherd, cluster):
    job = launcherd.submit("-np", "8", "sh", "-c", "echo up; exec sleep 1000")
    launcherd.watch("logs", "-f", job).out.wait_for("up", count=8)
    began = time.monotonic()
    os.kill(agent_on(cluster, "n2").pid, signal.SIGKILL)
    assert launcherd.muster("wait", job).returncode == 125
    took = time.monotonic() - began
    status = launcherd.asked("status", job)
    assert "n2" in re.search("reason: (.*)", status).group(1), status
    assert took < 10, f"{took:.1f} s"
    print(f"the job failed {took:.2f} s after its agent's death")
    again = launcherd.submit("-np", "8", "sh", "-c", "echo $MUSTER_HOSTNAME")
    assert launcherd.muster("wait", again).returncode == 0, "the host comes back by itself"


def test_a_link_that_is_cut_for_a_while(launcherd, cluster):
    job = launcherd.submit("-np", "8", "sh", "-c", COUNTS, "sh", "0")
    launcherd.watch("logs", "-f", job).out.wait_for("line 5", count=8)
    for how in ("drop", "reset"):
        cluster.cut("n3", how)
        time.sleep(1.5)  # longer than it takes to suspect a host
        cluster.heal("n3")
    assert launcherd.muster("wait", job).returncode == 0, launcherd.asked("events", job)
    check_output(launcherd, job, 8)
    assert len(starts(cluster)) == 8


def test_killed_before_its_hosts_have_the_agent(launcherd, cluster):
    """The next one looks for the agents of the first, on hosts that have no program for it to look with."""
    cache = "/home/alice/.cache/muster"
    for host in cluster.nodes:
        cluster.run(host, "alice", ["rm", "-rf", cache], check=True)
    job = launcherd.submit("-np", "8", "sh", "-c", COUNTS, "sh", "0")
    launcherd.die()
    launcherd.come_back()
    assert launcherd.watch("wait", job).end(60).rc == 0, launcherd.asked("events", job)
    check_output(launcherd, job, 8)
    assert len(starts(cluster)) == 8


def test_two_names_of_one_host(hvdrun, cluster, no_leftovers):
    """The next launcherd knows which agent has the ranks, and does not wait for the other name's."""
    launcherd = Launcherd(hvdrun, cluster, hosts="n1:1,n1-v6:1,n2:1")
    try:
        job = launcherd.submit("-np", "3", "sh", "-c", COUNTS, "sh", "0")
        launcherd.watch("logs", "-f", job).out.wait_for("line 2", count=3)
        launcherd.die()
        launcherd.come_back()
        assert launcherd.watch("wait", job).end(60).rc == 0, launcherd.asked("events", job)
        check_output(launcherd, job, 3)
        assert starts(cluster) == [f"{job}.{rank}" for rank in range(3)]
    finally:
        launcherd.close()
        for host in cluster.nodes:
            cluster.run(host, "alice", ["rm", "-f", STARTS], check=True)


def test_leaving_in_order(launcherd, cluster):
    """SIGTERM leaves running jobs to the next launcherd, and waiting ones."""
    running = launcherd.submit("-np", "8", "sh", "-c", COUNTS, "sh", "0")
    launcherd.watch("logs", "-f", running).out.wait_for("line 2", count=8)
    waiting = launcherd.submit("-np", "2", "sh", "-c", COUNTS, "sh", "0")
    launcherd.watched.signal(signal.SIGTERM)
    assert launcherd.watched.end().rc == 0
    launcherd.come_back()
    for job, ranks in ((running, 8), (waiting, 2)):
        assert launcherd.muster("wait", job).returncode == 0
        check_output(launcherd, job, ranks)
    assert len(starts(cluster)) == 10
