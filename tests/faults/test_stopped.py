"""Nothing of a job is left when its wardens, its agents, or both were stopped (SIGSTOP): after Ctrl-C and after the end
of the lease, as alice and as root, in each containment that the machine allows; also under launcherd."""

import os
import signal
import time

import pytest
from cluster import testing
from launcherd_user import Launcherd
from test_03_strays import LEVELS, RANKS, SHAPE, Job, agent_and_warden, allowance, describe, possible, ranks_of

LEASE = 15.0
GRACE = 0.5
# From the end of its lease: the warden's margin, its patience with its agent, the timer that ends an agent that hangs.
AGENT_ENDS = 6.5
STOPPED = ("warden", "agent", "both")
# "alone": hvdrun is killed as well, so that nobody continues them.
ENDS = ("ctrl-c", "lease", "alone")


@pytest.fixture(scope="module")
def hosts(clusters):
    return clusters.get(4, delegate=True)


def stop(hosts, host, user, what):
    agent, warden = agent_and_warden(hosts, host, user)
    for process in {"warden": [warden], "agent": [agent], "both": [warden, agent]}[what]:
        os.kill(process.pid, signal.SIGSTOP)


def wait_gone(job, begin, limit):
    testing.eventually(lambda: not job.processes(), begin + limit - time.monotonic())
    left = job.processes()
    took = time.monotonic() - begin
    if left:
        pytest.fail(f"{len(left)} processes are left after {took:.1f} s, allowed {limit:.1f} s:\n{describe(left)}\n{job.say()}")
    return took


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("what", STOPPED)
@pytest.mark.parametrize("user,level", LEVELS, ids=lambda value: value)
def test_stopped(hvdrun, hosts, user, level, what, end):
    problem = possible(hosts, user, level)
    if problem:
        pytest.skip(problem)
    before = testing.Leftovers(hosts)
    job = Job(hvdrun, hosts, user, level, SHAPE, RANKS).wait_ready()
    begin = time.monotonic()
    if end == "lease":
        hosts.cut("n2", "drop")
    stop(hosts, "n2", user, what)
    if end == "ctrl-c":
        job.command.send_signal(signal.SIGINT)
        # A host that is silent while it is to stop is looked at after 2 s, by a log-in.
        limit = GRACE + (2 if what == "warden" else 6)
    elif end == "alone":
        job.command.kill()
        limit = GRACE + 2 if what == "warden" else LEASE + AGENT_ENDS
    else:
        limit = LEASE + (1 if what == "warden" else AGENT_ENDS)
    took = wait_gone(job, begin, limit + allowance())
    job.end()
    hosts.restore()
    before.check(10)
    print(f"{user} {level} {what} {end}: gone after {took:.1f} s of {limit:.1f} s")


@pytest.mark.parametrize("what", STOPPED)
def test_stopped_under_launcherd(hvdrun, cluster, what):
    """The host is looked at, its keepers are continued, and a kill ends the job."""
    launcherd = Launcherd(hvdrun, cluster)
    try:
        job = launcherd.submit("-np", "2", "-H", "n1:1,n2:1", "sleep", "1000")
        assert testing.eventually(lambda: launcherd.job(job)["state"] == "JOB_STATE_RUNNING", 60), launcherd.job(job)
        stop(cluster, "n2", "alice", what)
        begin = time.monotonic()
        launcherd.muster("kill", job)
        limit = 60
        assert testing.eventually(lambda: not testing.strays(cluster, job), limit), testing.strays(cluster, job)
        assert testing.eventually(lambda: "end" in str(launcherd.job(job)) and launcherd.job(job)["state"] not in (
            "JOB_STATE_RUNNING", "JOB_STATE_STOPPING"), limit), launcherd.job(job)
        print(f"launcherd {what}: gone after {time.monotonic() - begin:.1f} s")
    finally:
        launcherd.close()


def test_cleanup_ends_what_is_stopped(hvdrun, hosts):
    """hvdrun was killed, both keepers are stopped: `muster cleanup` does not wait for the agent's timer."""
    job = Job(hvdrun, hosts, "alice", "subreaper", SHAPE, RANKS).wait_ready()
    assert ranks_of(job.processes())
    hosts.cut("n2", "drop")  # the agent's lease ends without a word of hvdrun's end
    stop(hosts, "n2", "alice", "both")
    job.command.kill()
    hosts.heal("n2")
    begin = time.monotonic()
    muster = str(job._hvdrun.start.__globals__["BIN_DIR"] / "muster")
    testing.eventually(lambda: not job.processes(), LEASE + 1)
    hosts.run("head", "alice", [muster, "cleanup", "-H", "n1,n2"], timeout=120)
    assert not job.processes(), describe(job.processes())
    print(f"cleanup: gone after {time.monotonic() - begin:.1f} s")
