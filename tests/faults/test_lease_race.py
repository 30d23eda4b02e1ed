"""A link that heals when the agent's lease is over and launcherd's is not yet, or nearly: 100 times. Each job ends, and
its slots are free again."""

import random
import time

import pytest
from cluster import testing
from conftest import rounds
from launcherd_user import Launcherd

ROUNDS = 100
LEASE = 5.0
ENDS = 60.0


@pytest.fixture
def launcherd(hvdrun, cluster):
    running = Launcherd(hvdrun, cluster, hosts="n1:1,n2:1")
    yield running
    running.close()


def test_lease_race(launcherd, cluster):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    choose = random.Random(seed)
    failed = []
    for number in range(rounds(ROUNDS)):
        job = launcherd.submit("-np", "1", "-H", "n1:1", "--lease", f"{LEASE:g}s", "sh", "-c", "echo up; sleep 1000")
        assert testing.eventually(lambda: launcherd.job(job)["state"] == "JOB_STATE_RUNNING", 60), launcherd.job(job)
        cut = choose.uniform(LEASE - 0.8, LEASE + 1.2)
        cluster.cut("n1", "drop")
        time.sleep(cut)  # the length of the cut is what is tried, nothing is waited for
        cluster.heal("n1")

        def is_over():
            return launcherd.job(job)["state"] not in ("JOB_STATE_RUNNING", "JOB_STATE_STOPPING")

        def describe(what):
            return f"round {number}, cut for {cut:.2f} s: {what}: {launcherd.job(job)} {launcherd.host('n1')}"

        if not testing.eventually(lambda: is_over() or launcherd.host("n1")["agent"] == "AGENT_STATE_UP", ENDS):
            failed.append(describe("the host does not come back"))
        if not testing.eventually(is_over, 3):
            # A link that heals in time leaves the rank as it was. One whose rank was ended is over.
            if testing.strays(cluster, job, ["n1"]):
                launcherd.muster("kill", job)
            if not testing.eventually(is_over, ENDS):
                failed.append(describe("the job does not end"))
                launcherd.muster("kill", job)
        if not testing.eventually(lambda: launcherd.host("n1").get("used_slots", 0) == 0, ENDS):
            failed.append(describe("slots stay taken"))
    print(f"{rounds(ROUNDS)} races, {len(failed)} failed")
    assert not failed, "\n".join(failed)
