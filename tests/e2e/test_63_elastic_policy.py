"""Jobs of launcherd that give slots back to jobs of higher priority, and grow on free slots: --elastic-policy."""

import json
import random
import time

from test_58_launcherd_elastic import (UNTIL_FINISHED, await_generation, finish, launcherd, lines_of, submit,  # noqa: F401
                                       until, used)

ELASTIC = ("--on-failure", "shrink", "--min-np", "2", "--max-np", "8")


def test_a_job_gives_slots_back_and_grows_again(launcherd, cluster):
    low = submit(launcherd, "-np", "8", *ELASTIC, "--elastic-policy", "both")
    await_generation(launcherd, low, 0, 8)
    equal = submit(launcherd, "-np", "2")
    high = submit(launcherd, "-np", "3", "--priority", "5", program="echo high; exec sleep 3")
    await_generation(launcherd, low, 1, 5)
    until(lambda: launcherd.job(high)["state"] != "JOB_STATE_QUEUED")
    reason = f"preemption: gives 3 slots back to job {high} (priority 5)"
    shown = launcherd.job(low)
    assert "generation 1: 8 → 5 ranks" in shown["last_change"] and reason in shown["last_change"], shown
    assert reason in launcherd.asked("events", low)
    assert launcherd.job(equal)["state"] == "JOB_STATE_QUEUED", "a job of the same priority waits"
    assert launcherd.watch("wait", high).end(60).rc == 0
    until(lambda: launcherd.job(equal)["state"] == "JOB_STATE_RUNNING")
    assert sum(used(launcherd).values()) == 7, "no job has grown so early"
    launcherd.asked("kill", equal)
    await_generation(launcherd, low, 2, 8)
    assert "growth: takes 3 free slots, as no job waits" in launcherd.job(low)["last_change"]
    finish(launcherd, cluster, low)
    assert launcherd.job(low).get("attempt", 0) == 2


def test_what_is_not_asked_for_does_not_change(launcherd, cluster):
    low = submit(launcherd, "-np", "8", *ELASTIC)
    await_generation(launcherd, low, 0, 8)
    high = submit(launcherd, "-np", "2", "--priority", "5")
    time.sleep(2)
    assert launcherd.job(high)["state"] == "JOB_STATE_QUEUED" and launcherd.job(low).get("attempt", 0) == 0
    refused = launcherd.muster("submit", "-np", "2", "--elastic-policy", "grow", "true")
    assert refused.returncode == 2 and "this job keeps its size" in refused.stderr, refused
    launcherd.asked("kill", high)
    finish(launcherd, cluster, low)


def test_hvdrun_passes_the_policy_to_launcherd(launcherd, cluster):
    refused = launcherd.hvdrun(["-np", "2", *ELASTIC, "--elastic-policy", "grow", "true"])
    assert refused.rc == 2 and "--elastic-policy: only launcherd changes the size" in refused.stderr, refused
    job = launcherd.run("-np", "2", *ELASTIC, "--elastic-policy", "grow", "sh", "-c", UNTIL_FINISHED)
    job.out.wait_for("up 0", 2)
    name, = [json.loads(line)["id"] for line in launcherd.asked("jobs", "--json").splitlines()]
    assert launcherd.job(name)["elastic_policy"] == "ELASTIC_POLICY_GROW"
    assert "\nelastic policy: grow\n" in launcherd.asked("status", name)
    finish(launcherd, cluster, name)
    assert job.end(60).rc == 0


def test_preempted_ranks_get_their_signal_first(launcherd, cluster):
    program = ("trap 'echo saved $MUSTER_RANK; exit 0' USR1; echo up $MUSTER_GENERATION $MUSTER_RANK $MUSTER_SIZE "
               "$MUSTER_HOSTNAME; while [ ! -e /tmp/finish ]; do sleep 0.1; done")
    low = submit(launcherd, "-np", "8", *ELASTIC, "--elastic-policy", "give-back", "--signal", "USR1@20", program=program)
    await_generation(launcherd, low, 0, 8)
    high = submit(launcherd, "-np", "2", "--priority", "1")
    await_generation(launcherd, low, 1, 6)
    assert launcherd.asked("logs", low).count("saved") == 8
    await_generation(launcherd, high, 0, 2)
    finish(launcherd, cluster, high)
    finish(launcherd, cluster, low)


def test_killed_during_a_preemption(launcherd, cluster):
    """kill -9 at a random moment: the jobs change their sizes once, and for the same reason."""
    low = submit(launcherd, "-np", "8", *ELASTIC, "--elastic-policy", "both")
    await_generation(launcherd, low, 0, 8)
    high = submit(launcherd, "-np", "4", "--priority", "5", program="echo up 0 $MUSTER_RANK 4 $MUSTER_HOSTNAME; sleep 2")
    time.sleep(random.random() * 0.8)
    launcherd.die()
    launcherd.come_back()
    assert launcherd.watch("wait", high).end(60).rc == 0, launcherd.asked("events", high)
    assert len(lines_of(launcherd, high, 0)) == 4
    events = launcherd.asked("events", low)
    assert "generation 1: 8 → 4 ranks" in events and f"gives 4 slots back to job {high}" in events, events
    await_generation(launcherd, low, 2, 8)
    finish(launcherd, cluster, low)
    assert launcherd.job(low).get("attempt", 0) == 2
