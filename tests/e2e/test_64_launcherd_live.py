"""Jobs of launcherd whose ranks live on while others come and go: --min-np, muster resize, --elastic-policy, hosts that
fail, and launcherd killed at random moments."""

import os
import random
import re
import signal
import time

import pytest
from console import PYTHON
from launcherd_user import Launcherd
from test_23_web import get
from test_58_launcherd_elastic import kill_agent, launcherd, until, used  # noqa: F401

KILLS = int(os.environ.get("MUSTER_KILLS", "4"))
ELASTIC = ("--min-np", "2", "--max-np", "8")

# Trains until the file /tmp/finish exists on the host of a rank. Each rank says when it is in another world.
TRAIN = r"""
import os, time
import numpy as np
import muster.elastic
import muster.numpy as hvd

hvd.init()
state = muster.elastic.ObjectState(step=0)

@muster.elastic.run
def train(state):
    print("world: rank", hvd.rank(), "of", hvd.size(), "pid", os.getpid(), "on", os.environ["MUSTER_HOSTNAME"],
          flush=True)
    while True:
        is_over = os.path.exists("/tmp/finish")
        total = hvd.allreduce(np.array([1.0, float(is_over)]), op=hvd.Sum)
        assert int(total[0]) == hvd.size()
        state.step += 1
        if total[1] > 0:
            break
        time.sleep(0.05)
        state.commit()
    print("done: rank", hvd.rank(), "of", hvd.size(), flush=True)

train(state)
"""


# The ranks commit nothing while the file /tmp/busy exists on the host of a rank, so they notice no other list of hosts.
BUSY = "said = []" + TRAIN.replace(
    "float(is_over)])", 'float(is_over), float(os.path.exists("/tmp/busy"))])').replace(
    "        state.commit()", """\
        if not total[2]:
            state.commit()
        elif not said:
            said.append(print("busy: rank", hvd.rank(), flush=True))""")


def submit(launcherd, *args, script=TRAIN):
    return launcherd.submit(*ELASTIC, *args, PYTHON, "-c", script)


def ranks_of(launcherd, job, size, times=1):
    """The (rank, pid, host) of the job's newest world of that size, once so many worlds of it have trained."""

    def newest():
        found = re.findall(r":world: rank (\d+) of (\d+) pid (\d+) on (\S+)$", launcherd.asked("logs", job), re.M)
        worlds = [each for each in found if int(each[1]) == size]
        return worlds[-size:] if len(worlds) >= times * size else []

    try:
        until(lambda: sorted(int(rank) for rank, *_ in newest()) == list(range(size)))
    except AssertionError as late:
        raise AssertionError(f"{launcherd.asked('logs', job)[-3000:]} {launcherd.asked('status', job)} "
                             f"{launcherd.asked('events', job)}") from late
    until(lambda: launcherd.job(job)["state"] == "JOB_STATE_RUNNING")
    return sorted((int(rank), int(pid), host) for rank, _, pid, host in newest())


def pids(ranks, *hosts):
    return [pid for _, pid, host in ranks if host in hosts]


def finish(launcherd, cluster, job, host="n1"):
    cluster.run(host, "alice", ["touch", "/tmp/finish"], check=True)
    assert launcherd.watch("wait", job).end(90).rc == 0, launcherd.asked("events", job)
    until(lambda: used(launcherd) == {})


def trainers(cluster):
    return [process for host in cluster.nodes if cluster.running(host) for process in cluster.processes(host)
            if "muster.elastic" in " ".join(process.argv)]


def test_a_rank_fails_and_the_others_live_on(launcherd, cluster):
    job = submit(launcherd, "-np", "6")
    before = ranks_of(launcherd, job, 6)
    assert used(launcherd) == {"n1": 2, "n2": 2, "n3": 2}
    victim = before[-1]
    assert victim[2] == "n3"
    watcher = launcherd.watch("attach", job)
    cluster.run("n3", "alice", ["kill", "-9", str(victim[1])], check=True)
    after = ranks_of(launcherd, job, 4)
    assert pids(after, "n1", "n2") == pids(before, "n1", "n2"), (before, after)
    until(lambda: used(launcherd) == {"n1": 2, "n2": 2})
    shown = launcherd.job(job)
    assert shown["attempt"] == 1 and "generation 1: 6 → 4 ranks, n3 lost" in shown["last_change"], shown
    assert len(shown["ranks"]) == 4 and {each["state"] for each in shown["ranks"]} == {"RANK_STATE_RUNNING"}, shown
    assert [int(each["pid"]) for each in shown["ranks"]] == [pid for _, pid, _ in after], shown
    status = launcherd.asked("status", job)
    assert ", generation 1\n" in status, status
    assert "generation 1: 6 → 4 ranks" in launcherd.asked("events", job)
    for rank in ("0", "3"):
        table = launcherd.asked("exec", job, "-n", "-r", rank, "--", "sh", "-c", 'cat "$MUSTER_RANK_TABLE"')
        assert [line.split("\t")[0::2][:2] for line in table.splitlines()[1:]] == [
            [str(number), host] for number, _, host in sorted((int(each[0]), *each[1:]) for each in after)], table
    watcher.signal(signal.SIGINT)
    watcher.end()
    assert launcherd.job(job)["state"] == "JOB_STATE_RUNNING", "Ctrl-C of a watcher does nothing to the job"
    finish(launcherd, cluster, job)
    assert launcherd.job(job)["size"] == 4


def test_a_lost_host_leaves_and_a_free_one_joins(launcherd, cluster):
    job = submit(launcherd, "-np", "4")
    before = ranks_of(launcherd, job, 4)
    kill_agent(cluster, "n2")
    after = ranks_of(launcherd, job, 2)
    assert pids(after, "n1") == pids(before, "n1") and len(after) == 2
    until(lambda: used(launcherd) == {"n1": 2})
    assert launcherd.asked("resize", job, "+4").startswith(f"job {job} goes from 2 to 6 ranks")
    more = ranks_of(launcherd, job, 6)
    assert pids(more, "n1") == pids(before, "n1"), (before, more)
    assert used(launcherd) == {"n1": 2, "n3": 2, "n4": 2}, "no rank starts again on the host that has failed"
    finish(launcherd, cluster, job)


def test_a_job_below_its_least_size_takes_free_slots(launcherd, cluster):
    job = submit(launcherd, "-np", "2", "-N", "1")
    before = ranks_of(launcherd, job, 2)
    kill_agent(cluster, "n2")
    after = ranks_of(launcherd, job, 2, times=2)
    assert pids(after, "n1") == pids(before, "n1") and used(launcherd) == {"n1": 1, "n3": 1}
    finish(launcherd, cluster, job)


def test_resize_up_and_down(launcherd, cluster):
    job = submit(launcherd, "-np", "2")
    first = ranks_of(launcherd, job, 2)
    launcherd.asked("resize", job, "+2")
    second = ranks_of(launcherd, job, 4)
    assert pids(second, "n1") == pids(first, "n1") and used(launcherd) == {"n1": 2, "n2": 2}
    launcherd.asked("hosts", "add", job, "n4:1")
    third = ranks_of(launcherd, job, 5)
    assert pids(third, "n1", "n2") == pids(second, "n1", "n2")
    assert used(launcherd) == {"n1": 2, "n2": 2, "n4": 1}
    launcherd.asked("resize", job, "=3")
    fourth = ranks_of(launcherd, job, 3)
    assert [pid for _, pid, _ in fourth] == [pid for _, pid, _ in third][:3]
    until(lambda: used(launcherd) == {"n1": 2, "n2": 1})
    launcherd.asked("resize", job, "=4")  # the host has left one slot, and gets it again
    fifth = ranks_of(launcherd, job, 4, times=2)
    assert [pid for _, pid, _ in fifth][:3] == [pid for _, pid, _ in fourth]
    assert used(launcherd) == {"n1": 2, "n2": 2}
    for size, why in (("=1", "not between 2 and 8"), ("=9", "not between 2 and 8")):
        refused = launcherd.muster("resize", job, size)
        assert refused.returncode == 1 and why in refused.stderr, refused
    shown = launcherd.job(job)
    assert shown["attempt"] == 4, shown
    finish(launcherd, cluster, job)
    assert "generation 3: 5 → 3 ranks, n4 lost" in launcherd.asked("events", job)


def test_slots_that_a_job_never_used_are_free_again(launcherd, cluster):
    job = submit(launcherd, "-np", "2", script=BUSY)
    before = ranks_of(launcherd, job, 2)
    cluster.run("n1", "alice", ["touch", "/tmp/busy"], check=True)
    try:
        until(lambda: launcherd.asked("logs", job).count(":busy: rank") == 2)
        launcherd.asked("resize", job, "=6")
        until(lambda: used(launcherd) == {"n1": 2, "n2": 2, "n3": 2})
        launcherd.asked("resize", job, "=2")
        try:
            until(lambda: used(launcherd) == {"n1": 2})
        except AssertionError as late:
            raise AssertionError(f"{used(launcherd)} {launcherd.asked('status', job)} {launcherd.asked('events', job)}") from late
    finally:
        cluster.run("n1", "alice", ["rm", "/tmp/busy"], check=True)
    launcherd.asked("resize", job, "=4")
    after = ranks_of(launcherd, job, 4)
    assert pids(after, "n1") == pids(before, "n1") and used(launcherd) == {"n1": 2, "n2": 2}
    finish(launcherd, cluster, job)


def test_a_host_that_has_left_may_come_back(launcherd, cluster):
    job = submit(launcherd, "-np", "4")
    first = ranks_of(launcherd, job, 4)
    launcherd.asked("resize", job, "=2")
    ranks_of(launcherd, job, 2)
    until(lambda: used(launcherd) == {"n1": 2})
    launcherd.asked("hosts", "add", job, "n2:2")
    again = ranks_of(launcherd, job, 4, times=2)
    assert pids(again, "n1") == pids(first, "n1") and not set(pids(again, "n2")) & set(pids(first, "n2"))
    assert used(launcherd) == {"n1": 2, "n2": 2}
    finish(launcherd, cluster, job)


def test_a_job_gives_slots_back_and_grows_again(launcherd, cluster):
    low = submit(launcherd, "-np", "8", "--elastic-policy", "both")
    first = ranks_of(launcherd, low, 8)
    high = launcherd.submit("-np", "2", "--priority", "5", "sh", "-c", "echo high; exec sleep 3")
    ranks_of(launcherd, low, 6)
    assert launcherd.watch("wait", high).end(60).rc == 0
    reason = f"preemption: gives 2 slots back to job {high} (priority 5)"
    assert reason in launcherd.asked("events", low), launcherd.asked("events", low)
    last = ranks_of(launcherd, low, 8, times=2)
    assert pids(last, "n1", "n2", "n3") == pids(first, "n1", "n2", "n3")
    assert "growth: takes 2 free slots, as no job waits" in launcherd.job(low)["last_change"]
    finish(launcherd, cluster, low)


def test_kill_and_shutdown_leave_nothing(launcherd, cluster):
    job = submit(launcherd, "-np", "4")
    ranks_of(launcherd, job, 4)
    launcherd.asked("kill", job)
    assert launcherd.watch("wait", job).end(60).rc != 0
    assert launcherd.job(job)["state"] == "JOB_STATE_KILLED" and used(launcherd) == {}
    other = submit(launcherd, "-np", "4")
    ranks_of(launcherd, other, 4)
    launcherd.watched.signal(signal.SIGTERM)
    assert launcherd.watched.end().rc == 0
    assert trainers(cluster) == []
    launcherd.come_back()
    ended = launcherd.job(other)
    assert ended["state"] == "JOB_STATE_KILLED" and "launcherd was stopped" in ended["reason"], ended


def test_killed_launcherd_ends_the_job(launcherd, cluster):
    """kill -9 at random moments: the next launcherd ends all ranks, and the job says so."""
    for attempt in range(KILLS):
        seed = random.randrange(1 << 30)
        wait = random.Random(seed).uniform(0, 4)
        job = submit(launcherd, "-np", "4")
        if attempt % 2:
            ranks_of(launcherd, job, 4)
            launcherd.asked("resize", job, random.Random(seed).choice(["+2", "=2", "+4"]))
        time.sleep(wait)
        launcherd.die()
        if attempt % 4 == 3 and any(process.argv[-1:] == ("--stdio",) for process in cluster.processes("n2")):
            kill_agent(cluster, "n2")  # its host is searched then
        launcherd.come_back()
        if attempt % 4 == 2:
            launcherd.die()  # while it ends the ranks
            launcherd.come_back()
        assert launcherd.watch("wait", job).end(90).rc != 0, (seed, launcherd.asked("events", job))
        ended = launcherd.job(job)
        assert ended["state"] == "JOB_STATE_FAILED" and "submit it again" in ended["reason"], (seed, ended)
        assert not {each["state"] for each in ended.get("ranks", [])} & {"RANK_STATE_RUNNING"}, (seed, ended)
        until(lambda: used(launcherd) == {})
        until(lambda: trainers(cluster) == [])
    job = submit(launcherd, "-np", "8")
    ranks_of(launcherd, job, 8)
    finish(launcherd, cluster, job)


def test_what_launcherd_refuses(launcherd, cluster):
    scripted = launcherd.run(*ELASTIC, "--host-discovery-script", "/bin/true", "true").end()
    assert scripted.rc == 2 and "--host-discovery-script: launcherd's queue" in scripted.stderr, scripted
    alone = launcherd.muster("submit", "--max-np", "2", "true")
    assert alone.returncode == 2 and "add --min-np" in alone.stderr, alone
    small = launcherd.muster("submit", *ELASTIC, "-np", "1", "true")
    assert small.returncode == 2 and "--min-np" in small.stderr, small


def test_hvdrun_waits_for_a_live_job(launcherd, cluster):
    run = launcherd.run("-np", "4", *ELASTIC, PYTHON, "-c", TRAIN)
    run.out.wait_for(r"<stdout>:world: rank \d+ of 4 ", 4)
    cluster.run("n1", "alice", ["touch", "/tmp/finish"], check=True)
    result = run.end(60)
    assert result.rc == 0 and len(re.findall("done: rank", result.stdout)) == 4, result


def test_a_host_that_cannot_join_is_given_back(launcherd, cluster):
    job = submit(launcherd, "-np", "2", "--start-timeout", "5")
    before = ranks_of(launcherd, job, 2)
    cluster.stop_sshd("n2")
    try:
        launcherd.asked("hosts", "add", job, "n2:2")
        until(lambda: used(launcherd) == {"n1": 2})
    finally:
        cluster.start_sshd("n2")
    assert launcherd.job(job)["state"] == "JOB_STATE_RUNNING"
    launcherd.asked("resize", job, "=4")
    after = ranks_of(launcherd, job, 4)
    assert pids(after, "n1") == pids(before, "n1") and used(launcherd) == {"n1": 2, "n3": 2}
    finish(launcherd, cluster, job)


def test_a_silent_host_leaves(launcherd, cluster):
    job = submit(launcherd, "-np", "4", "--lease", "6")
    before = ranks_of(launcherd, job, 4)
    cluster.cut("n2", "drop")
    after = ranks_of(launcherd, job, 2)
    assert pids(after, "n1") == pids(before, "n1")
    until(lambda: used(launcherd) == {"n1": 2})
    cluster.heal("n2")
    finish(launcherd, cluster, job)
    until(lambda: trainers(cluster) == [])


def test_without_slots_in_time_the_job_ends(launcherd, cluster):
    blocker = launcherd.submit("-np", "4", "-H", "n3,n4", "sleep", "1000")
    job = launcherd.submit("--min-np", "4", "--elastic-timeout", "3", PYTHON, "-c", TRAIN)
    ranks_of(launcherd, job, 4)
    kill_agent(cluster, "n2")
    assert launcherd.watch("wait", job).end(60).rc != 0
    ended = launcherd.job(job)
    assert ended["state"] == "JOB_STATE_FAILED", ended
    assert used(launcherd) == {"n3": 2, "n4": 2}
    launcherd.asked("kill", blocker)


def test_a_failed_host_comes_back_after_its_cooldown(launcherd, cluster):
    job = submit(launcherd, "-np", "4", "--blacklist-cooldown-range", "2", "4")
    before = ranks_of(launcherd, job, 4)
    cluster.run("n2", "alice", ["kill", "-9", str(before[-1][1])], check=True)
    ranks_of(launcherd, job, 2)
    failed, = launcherd.job(job)["failed_hosts"]
    assert failed["name"] == "n2" and failed["usable_from"], failed
    assert f"  failed in job {job}, back at " in launcherd.asked("hosts")
    after = ranks_of(launcherd, job, 4, times=2)
    assert pids(after, "n1") == pids(before, "n1") and used(launcherd) == {"n1": 2, "n2": 2}
    assert launcherd.job(job)["failed_hosts"] == []
    finish(launcherd, cluster, job)


def test_metrics_count_the_changes(hvdrun, cluster, no_leftovers):
    daemon = Launcherd(hvdrun, cluster, "--http", "127.0.0.1:0")
    try:
        daemon.url = re.search(r"http://127\.0\.0\.1:\d+", daemon.watched.err.text).group(0)
        job = submit(daemon, "-np", "4")
        before = ranks_of(daemon, job, 4)
        daemon.asked("resize", job, "=2")
        ranks_of(daemon, job, 2)
        daemon.asked("resize", job, "=4")
        _, victim, host = ranks_of(daemon, job, 4, times=2)[-1]
        assert host == "n2"
        cluster.run("n2", "alice", ["kill", "-9", str(victim)], check=True)
        assert pids(ranks_of(daemon, job, 2, times=2), "n1") == pids(before, "n1")
        ended = 'muster_elastic_resets_total{reason="failure"} 1\n'
        until(lambda: "first_collective_seconds_count 3\n" in get(daemon, "/metrics")[1])
        metrics = get(daemon, "/metrics")[1]
        for line in (ended, 'muster_elastic_resets_total{reason="resize"} 2\n', "muster_elastic_reset_seconds_count 3\n",
                     "muster_elastic_jobs 1\n", "muster_ranks 2\n"):
            assert line in metrics, "\n".join([line, *(each for each in metrics.splitlines() if "# " not in each)])
        finish(daemon, cluster, job)
        assert "muster_elastic_jobs 0\n" in get(daemon, "/metrics")[1]
    finally:
        daemon.close()
        cluster.run("n1", "alice", ["rm", "-f", "/tmp/finish"], check=True)
