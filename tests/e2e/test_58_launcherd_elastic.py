"""Jobs of launcherd that go on with other hosts or another size: --on-failure, muster resize, and launcherd killed in
every phase of a change."""

import json
import os
import random
import re
import signal
import time

import pytest
from console import PYTHON
from launcherd_user import Launcherd
from test_22_launcherd_dies import agent_on

PATIENCE = 40
KILLS = int(os.environ.get("MUSTER_KILLS", "5"))

# Every generation says who it is. It ends well once the file /tmp/finish exists on its host.
UNTIL_FINISHED = ("echo up $MUSTER_GENERATION $MUSTER_RANK $MUSTER_SIZE $MUSTER_HOSTNAME; "
                  "while [ ! -e /tmp/finish ]; do sleep 0.1; done")


@pytest.fixture
def launcherd(hvdrun, cluster, no_leftovers):
    daemon = Launcherd(hvdrun, cluster)
    yield daemon
    daemon.close()
    for host in cluster.nodes:
        cluster.run(host, "alice", ["rm", "-f", "/tmp/finish"], check=True)


def submit(launcherd, *args, program=UNTIL_FINISHED):
    return launcherd.submit(*args, "sh", "-c", program)


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it does not come to pass"
        time.sleep(0.1)


def lines_of(launcherd, job, generation):
    """The (rank, size, host) of a generation's ranks, as far as they have started."""
    found = re.findall(rf"^\[\d+\]<stdout>:up {generation} (\d+) (\d+) (\S+)$", launcherd.asked("logs", job), re.M)
    return sorted((int(rank), int(size), host) for rank, size, host in found)


def await_generation(launcherd, job, generation, size):
    try:
        until(lambda: len(lines_of(launcherd, job, generation)) == size)
    except AssertionError as late:
        raise AssertionError(f"{launcherd.asked('status', job)} {launcherd.asked('events', job)}") from late
    lines = lines_of(launcherd, job, generation)
    assert [rank for rank, _, _ in lines] == list(range(size)) and {each for _, each, _ in lines} == {size}, lines
    until(lambda: launcherd.job(job)["state"] == "JOB_STATE_RUNNING")
    return [host for _, _, host in lines]


def finish(launcherd, cluster, job, code=0):
    for host in cluster.nodes:
        if cluster.running(host):
            cluster.run(host, "alice", ["touch", "/tmp/finish"], check=True)
    assert launcherd.watch("wait", job).end(90).rc == code, launcherd.asked("events", job)


def used(launcherd):
    return {host["name"]: host["used_slots"] for host in launcherd.hosts() if host.get("used_slots")}


def kill_agent(cluster, host):
    os.kill(agent_on(cluster, host).pid, signal.SIGKILL)


def test_a_free_host_takes_the_lost_ones_place(launcherd, cluster):
    job = submit(launcherd, "-np", "4", "--on-failure", "replace")
    assert await_generation(launcherd, job, 0, 4) == ["n1", "n1", "n2", "n2"]
    kill_agent(cluster, "n2")
    assert await_generation(launcherd, job, 1, 4) == ["n1", "n1", "n3", "n3"]
    assert used(launcherd) == {"n1": 2, "n3": 2}
    shown = launcherd.job(job)
    assert shown.get("attempt", 0) == 1 and "n3 joined, n2 lost" in shown["last_change"], shown
    status = launcherd.asked("status", job)
    assert ", generation 1\n" in status and "last change: generation 1: 4 → 4 ranks" in status, status
    assert "generation 1: 4 → 4 ranks, n3 joined, n2 lost" in launcherd.asked("events", job)
    finish(launcherd, cluster, job)
    assert used(launcherd) == {}


def test_a_job_that_shrinks_goes_on_with_fewer_ranks(launcherd, cluster):
    job = submit(launcherd, "-np", "8", "--on-failure", "shrink", "--min-np", "4")
    await_generation(launcherd, job, 0, 8)
    kill_agent(cluster, "n4")
    assert await_generation(launcherd, job, 1, 6) == ["n1", "n1", "n2", "n2", "n3", "n3"]
    assert len(launcherd.job(job)["ranks"]) == 6
    finish(launcherd, cluster, job)
    ended = launcherd.job(job)
    assert ended["size"] == 6 and len(ended["ranks"]) == 6, ended


def test_replace_waits_for_a_host(launcherd, cluster):
    blocker = submit(launcherd, "-np", "4", "-H", "n3,n4", program="exec sleep 1000")
    job = submit(launcherd, "-np", "4", "--on-failure", "replace")
    assert await_generation(launcherd, job, 0, 4) == ["n1", "n1", "n2", "n2"]
    kill_agent(cluster, "n2")
    until(lambda: "waits for a host" in launcherd.job(job).get("reason", ""))
    assert used(launcherd) == {"n1": 2, "n3": 2, "n4": 2}, "the lost host is given back"
    launcherd.die()  # the wait outlives its launcherd
    launcherd.come_back()
    assert "waits for a host" in launcherd.job(job)["reason"]
    launcherd.asked("kill", blocker)
    assert await_generation(launcherd, job, 1, 4) == ["n1", "n1", "n3", "n3"]
    finish(launcherd, cluster, job)


def test_replace_waits_for_the_cooldown_of_a_failed_host(launcherd, cluster):
    everywhere = ["n1", "n1", "n2", "n2", "n3", "n3", "n4", "n4"]  # no other host is left
    job = submit(launcherd, "-np", "8", "--on-failure", "replace", "--failed-host-cooldown", "15")
    assert await_generation(launcherd, job, 0, 8) == everywhere
    kill_agent(cluster, "n2")
    until(lambda: "waits for a host" in launcherd.job(job).get("reason", ""))
    failed, = launcherd.job(job)["failed_hosts"]
    assert failed["name"] == "n2" and failed["reason"] and failed["usable_from"], failed
    assert "; may be used again in 1" in launcherd.asked("status", job)
    left_out = [{"job": job, "reason": failed["reason"], "usable_from": failed["usable_from"]}]
    assert [host["name"] for host in launcherd.hosts() if host["left_out"]] == ["n2"]
    assert next(host["left_out"] for host in launcherd.hosts() if host["name"] == "n2") == left_out
    assert re.search(rf"^  failed in job {job}, back at \d{{4}}-\S+ \S+ \S+: ", launcherd.asked("hosts"), re.M)
    launcherd.die()  # the cool-down outlives its launcherd
    launcherd.come_back()
    assert launcherd.job(job)["failed_hosts"] == [failed]
    assert sorted(await_generation(launcherd, job, 1, 8)) == everywhere
    assert launcherd.job(job)["failed_hosts"] == []
    assert not any(host["left_out"] for host in launcherd.hosts())
    finish(launcherd, cluster, job)


COLLECTIVE = """
import os, signal, time
import numpy as np
import muster.numpy as hvd
hvd.init()
if os.environ["MUSTER_GENERATION"] == "0":
    time.sleep(1000)
assert hvd.allreduce(np.ones(1), op=hvd.Sum)[0] == hvd.size()
while not os.path.exists("/tmp/finish"):
    time.sleep(0.1)
"""


def test_a_failed_host_serves_other_jobs_and_the_first_collective_is_told(launcherd, cluster):
    job = launcherd.submit("-np", "4", "--on-failure", "shrink", "--elastic-policy", "give-back", PYTHON, "-c",
                           COLLECTIVE)
    until(lambda: launcherd.job(job)["state"] == "JOB_STATE_RUNNING")
    assert "first_collective_ms" not in launcherd.job(job)
    kill_agent(cluster, "n2")
    began = time.monotonic()
    until(lambda: "first_collective_ms" in launcherd.job(job))
    shown = launcherd.job(job)
    assert 0 < int(shown["first_collective_ms"]) / 1000 < time.monotonic() - began + 1, shown
    assert shown["elastic_policy"] == "ELASTIC_POLICY_GIVE_BACK", shown
    status = launcherd.asked("status", job)
    assert re.search(r"^first collective: \d+\.\d\d s after the failure or the resize$", status, re.M), status
    assert "\nelastic policy: give-back\n" in status
    assert launcherd.asked("events", job).count("generation 1: first collective after ") == 1
    assert f"  failed in job {job}, not used again by it: " in launcherd.asked("hosts")
    other = launcherd.submit("-np", "1", "-H", "n2", "true")
    assert launcherd.watch("wait", other).end(90).rc == 0, launcherd.asked("events", other)
    finish(launcherd, cluster, job)


def test_progress_keeps_the_restarts(launcherd, cluster):
    program = "echo step; [ $MUSTER_GENERATION = 3 ] && exit 0; [ $MUSTER_RANK = 0 ] || exec sleep 1000; exit 1"
    job = submit(launcherd, "-np", "2", "--on-failure", "restart", "--max-restarts", "1", "--progress-text", "step",
                 program=program)
    assert launcherd.watch("wait", job).end(90).rc == 0, launcherd.asked("events", job)
    assert launcherd.job(job).get("attempt", 0) == 3


def test_resize(launcherd, cluster):
    job = submit(launcherd, "-np", "4", "--on-failure", "shrink", "--min-np", "2", "--max-np", "8")
    await_generation(launcherd, job, 0, 4)
    assert "from 4 to 6 ranks" in launcherd.asked("resize", job, "+2")
    assert await_generation(launcherd, job, 1, 6) == ["n1", "n1", "n2", "n2", "n3", "n3"]
    assert used(launcherd) == {"n1": 2, "n2": 2, "n3": 2}
    assert "has 6 ranks" in launcherd.asked("resize", job, "=6")
    assert json.loads(launcherd.asked("resize", "--json", job, "-3"))["size"] == 3
    assert await_generation(launcherd, job, 2, 3) == ["n1", "n1", "n2"]
    launcherd.asked("hosts", "add", job, "n4:2")
    assert await_generation(launcherd, job, 3, 5) == ["n1", "n1", "n2", "n4", "n4"]
    assert "has 5 ranks" in launcherd.asked("hosts", "add", job, "n4:2"), "a repeated call changes nothing"
    refused = launcherd.muster("resize", job, "=9")
    assert refused.returncode == 1 and "not between 2 and 8" in refused.stderr, refused
    assert launcherd.job(job).get("attempt", 0) == 3
    finish(launcherd, cluster, job)
    ended = launcherd.muster("resize", job, "+1")
    assert ended.returncode == 1 and "has ended" in ended.stderr, ended


def test_what_cannot_be_resized_says_why(launcherd, cluster):
    fixed = submit(launcherd, "-np", "2", program="exec sleep 1000")
    until(lambda: launcherd.job(fixed)["state"] == "JOB_STATE_RUNNING")
    refused = launcherd.muster("resize", fixed, "+2")
    assert refused.returncode == 1 and "--on-failure shrink" in refused.stderr, refused
    job = submit(launcherd, "-np", "2", "--on-failure", "shrink")
    await_generation(launcherd, job, 0, 2)
    many = launcherd.muster("resize", job, "+6")
    assert many.returncode == 1 and "6 more slots are needed, but only 4 are free" in many.stderr, many
    unknown = launcherd.muster("hosts", "add", job, "n99:1")
    assert unknown.returncode == 1 and "n99 is not one of launcherd's hosts" in unknown.stderr, unknown
    wrong = launcherd.muster("resize", job, "6")
    assert wrong.returncode == 2 and "write +2 for two ranks more" in wrong.stderr, wrong
    launcherd.asked("kill", fixed, job)


def test_a_resize_gives_the_signal_first(launcherd, cluster):
    program = ("trap 'echo saved $MUSTER_RANK; exit 0' USR1; echo up $MUSTER_GENERATION $MUSTER_RANK $MUSTER_SIZE "
               "$MUSTER_HOSTNAME; while [ ! -e /tmp/finish ]; do sleep 0.1; done")
    job = submit(launcherd, "-np", "2", "--on-failure", "shrink", "--signal", "USR1@20", "--timeout", "600", program=program)
    await_generation(launcherd, job, 0, 2)
    launcherd.asked("resize", job, "=4")
    await_generation(launcherd, job, 1, 4)
    assert launcherd.asked("logs", job).count("saved") == 2
    finish(launcherd, cluster, job)


def test_killed_during_changes(launcherd, cluster):
    """kill -9 at random moments of a change: each generation starts once, and the job goes on or says how it ended."""
    seed = int(os.environ.get("MUSTER_SEED", time.time_ns() % 1_000_000))
    print("MUSTER_SEED", seed)
    chance = random.Random(seed)
    job = submit(launcherd, "-np", "4", "--on-failure", "shrink", "--min-np", "2")
    await_generation(launcherd, job, 0, 4)
    size, attempt = 4, 0
    for _ in range(KILLS):
        size = chance.choice([each for each in (2, 3, 4, 6, 8) if each != size])
        launcherd.asked("resize", job, f"={size}")
        time.sleep(chance.random() * 1.5)
        launcherd.die()
        time.sleep(chance.random() * 0.5)
        launcherd.come_back()
        until(lambda: launcherd.job(job).get("attempt", 0) > attempt)
        attempt = launcherd.job(job).get("attempt", 0)
        await_generation(launcherd, job, attempt, size)
        assert sum(used(launcherd).values()) == size
    finish(launcherd, cluster, job)
    starts = re.findall(r"^\[(\d+)\]<stdout>:up (\d+) ", launcherd.asked("logs", job), re.M)
    assert len(starts) == len(set(starts)), f"a rank of a generation started twice: {sorted(starts)}"
    assert attempt == KILLS, "each resize made one generation"


def test_killed_after_the_loss_of_a_host(launcherd, cluster):
    job = submit(launcherd, "-np", "4", "--on-failure", "replace")
    await_generation(launcherd, job, 0, 4)
    kill_agent(cluster, "n2")
    time.sleep(random.random() * 0.8)
    launcherd.die()
    launcherd.come_back()
    assert await_generation(launcherd, job, 1, 4) == ["n1", "n1", "n3", "n3"]
    finish(launcherd, cluster, job)
