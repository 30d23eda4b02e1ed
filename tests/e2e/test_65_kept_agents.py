"""Agents that hvdrun keeps between the generations of a job: nothing of them is left, however the job ends."""

import os
import re
import signal
import time

import pytest
from cluster import testing
from console import PATIENCE, Watched, last_line

HOSTS = ["-np", "4", "-H", "n1:2,n2:2", "--max-restarts", "3"]
NODES = ["n1", "n2"]
LEASE = 15.0  # hvdrun's
HANGS = 6.0   # an agent that hangs is killed this long after its lease
# Each generation waits until a file tells its end. Then one rank fails, or all end well.
RANK = """
echo up $MUSTER_GENERATION
while [ ! -e /tmp/$0-$MUSTER_GENERATION ]; do sleep 0.05; done
[ $MUSTER_RANK = 0 ] || [ -e /tmp/$0-well ] || exec sleep 1000
[ -e /tmp/$0-well ] || exit 4
"""


class Job:
    """hvdrun with four ranks on n1 and n2, and a word by which their files and they are found."""

    def __init__(self, hvdrun, cluster, word, args=()):
        self.cluster, self.word = cluster, word
        self.watched = Watched(hvdrun, cluster, [*HOSTS, *args, "-x", f"MARK={word}", "sh", "-c", RANK, word])

    def wait_up(self, generation, **options):
        self.watched.out.wait_for(rf"<stdout>:up {generation}\b", 4, **options)
        return self

    def fail(self, generation):
        """Rank 0 of this generation fails."""
        self._touch(f"{self.word}-{generation}")

    def end_well(self, generation):
        for name in (f"{self.word}-well", f"{self.word}-{generation}"):
            self._touch(name)
        return self.watched.end(timeout=PATIENCE)

    def _touch(self, name):
        for host in self.cluster.nodes:
            self.cluster.run(host, "alice", ["touch", f"/tmp/{name}"], check=True)

    def restarted_once(self):
        """This job in generation 1, with the agents of generation 0."""
        self.wait_up(0)
        before = agents(self.cluster)
        self.fail(0)
        self.wait_up(1)
        assert agents(self.cluster) == before, "the agents are not those of generation 0"
        return self

    def wait_restart(self):
        self.watched.err.wait_for(r"restart 1 of 3: the whole job starts again")
        return self


def is_muster(cluster, process):
    return process.uid == cluster.uid("alice") and (process.comm.startswith("muster-") or "--stdio" in process.argv)


def found(cluster, word, hosts=None):
    """[(host, Process)] of a job and its agents on these hosts."""
    return [(host, process) for host, processes in cluster.all_processes(hosts or NODES).items()
            for process in processes if is_muster(cluster, process) or word in process.environ.values()]


def agents(cluster, hosts=None):
    """The agents of alice on these hosts, by host: the parents of the nurseries."""
    by_host = {}
    for host in hosts or NODES:
        processes = [process for process in cluster.processes(host) if is_muster(cluster, process)]
        parents = {process.ppid for process in processes if process.comm == "muster-nursery"}
        by_host[host] = [process.key for process in processes if process.pid in parents]
    return by_host


def agent_of(cluster, host):
    (agent,) = agents(cluster, [host])[host]
    return agent[0]


def hold_between_generations(cluster, hosts=None):
    """Without its nursery an agent can open no generation."""
    for host in hosts or NODES:
        for process in cluster.processes(host):
            if is_muster(cluster, process) and process.comm == "muster-nursery":
                os.kill(process.pid, signal.SIGSTOP)


def at_once():
    """What is killed at once is gone within 2 s, or on a busy machine within a multiple of that."""
    return 2.0 * min(5.0, max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0))))


def assert_gone(cluster, word, limit, hosts=None):
    begin = time.monotonic()
    testing.eventually(lambda: not found(cluster, word, hosts), limit)
    left = [f"{host}: {testing.inside(process)}" for host, process in found(cluster, word, hosts)]
    assert not left, f"left after {time.monotonic() - begin:.1f} s:\n" + "\n".join(left)


@pytest.fixture(autouse=True)
def _files(cluster):
    yield
    for host in cluster.nodes:
        cluster.run(host, "alice", ["sh", "-c", "rm -f /tmp/kept-*"])


def test_agents_are_kept_and_end_with_the_job(hvdrun, cluster, no_leftovers):
    job = Job(hvdrun, cluster, "kept-ends").restarted_once()
    job.fail(1)
    job.wait_up(2)
    result = job.end_well(2)
    assert result.rc == 0, result
    assert_gone(cluster, "kept-ends", at_once())


def test_kill_of_hvdrun_in_a_generation(hvdrun, cluster, no_leftovers):
    job = Job(hvdrun, cluster, "kept-killed").restarted_once()
    job.watched.signal(signal.SIGKILL)
    assert_gone(cluster, "kept-killed", at_once())


def between_generations(hvdrun, cluster, word, is_held):
    """A job whose first generation has failed. If it is held, its agents cannot open the next one."""
    job = Job(hvdrun, cluster, word).wait_up(0)
    if is_held:
        hold_between_generations(cluster)
    job.fail(0)
    job.wait_restart()
    return job


@pytest.mark.parametrize("is_held", [False, True], ids=["at a restart", "between two generations"])
def test_kill_of_hvdrun_between_generations(hvdrun, cluster, no_leftovers, is_held):
    job = between_generations(hvdrun, cluster, "kept-between", is_held)
    job.watched.signal(signal.SIGKILL)
    assert_gone(cluster, "kept-between", at_once())


@pytest.mark.parametrize("is_held", [False, True], ids=["at a restart", "between two generations"])
def test_stopped_hvdrun_between_generations(hvdrun, cluster, no_leftovers, is_held):
    """A stopped launcher sends nothing, so the agents end by their lease, with or without a generation."""
    job = between_generations(hvdrun, cluster, "kept-frozen", is_held)
    job.watched.signal(signal.SIGSTOP)
    assert_gone(cluster, "kept-frozen", LEASE + HANGS + at_once())
    job.watched.signal(signal.SIGCONT)
    testing.eventually(lambda: job.watched.ended() or job.watched.out.text.count("<stdout>:up 1") == 4, PATIENCE)
    result = job.watched.end() if job.watched.ended() else job.end_well(1)
    assert result.rc == 0 or result.rc == 125 and re.search(r"^hvdrun: n[12]: ", result.stderr, re.M), result


def test_stopped_hvdrun_in_a_generation(hvdrun, cluster, no_leftovers):
    job = Job(hvdrun, cluster, "kept-halted").restarted_once()
    job.watched.signal(signal.SIGSTOP)
    # The output of the ranks waits for the launcher until the time limit of the agents' end is over.
    assert_gone(cluster, "kept-halted", LEASE + 20 + at_once())
    job.watched.signal(signal.SIGCONT)
    result = job.watched.end(timeout=LEASE + PATIENCE)
    assert result.rc != 0, result


def test_cut_link_of_a_kept_agent(hvdrun, cluster, no_leftovers):
    job = Job(hvdrun, cluster, "kept-cut").restarted_once()
    cluster.cut("n2", "drop")
    assert_gone(cluster, "kept-cut", LEASE + HANGS + at_once(), ["n2"])
    result = job.watched.end(timeout=LEASE + PATIENCE)
    assert result.rc == 125 and "n2" in last_line(result) + result.stderr, result
    cluster.heal("n2")


@pytest.mark.parametrize("stopped", ["nursery", "agent"])
def test_stopped_agent_at_a_restart(hvdrun, cluster, no_leftovers, stopped):
    """The job goes on with a new agent, or it names the host. The old agent does not stay."""
    job = Job(hvdrun, cluster, f"kept-stopped-{stopped}", ["--start-timeout", "20"]).wait_up(0)
    agent = agent_of(cluster, "n2")
    hold_between_generations(cluster, ["n2"])
    job.fail(0)
    job.wait_restart()
    if stopped == "agent":
        os.kill(agent, signal.SIGSTOP)
    testing.eventually(lambda: job.watched.ended() or job.watched.out.text.count("<stdout>:up 1") == 4, PATIENCE)
    if job.watched.ended():
        result = job.watched.end()
        assert result.rc == 125 and "n2" in result.stderr, result
    else:
        new = agents(cluster, ["n2"])["n2"]
        assert any(key[0] != agent for key in new), new
        result = job.end_well(1)
        assert result.rc == 0, result
    assert_gone(cluster, job.word, LEASE + HANGS + at_once())


def test_stopped_agent_before_a_restart(hvdrun, cluster, no_leftovers):
    """The launcher continues the agent, because it must end its ranks. Then the job goes on."""
    job = Job(hvdrun, cluster, "kept-late").wait_up(0)
    os.kill(agent_of(cluster, "n2"), signal.SIGSTOP)
    job.fail(0)
    job.wait_up(1, timeout=LEASE + PATIENCE)
    result = job.end_well(1)
    assert result.rc == 0, result
    assert_gone(cluster, "kept-late", LEASE + HANGS + at_once())


def test_suspended_hvdrun_keeps_its_agents(hvdrun, cluster, no_leftovers):
    """Longer than the lease; the suspension ends with its generation."""
    def states():
        return {process.state for _, process in found(cluster, "kept-suspended") if process.comm == "sh"}

    job = Job(hvdrun, cluster, "kept-suspended").restarted_once()
    before = agents(cluster)
    job.watched.signal(signal.SIGTSTP)
    assert testing.eventually(lambda: states() == {"T"}, PATIENCE), states()
    assert not testing.eventually(lambda: states() != {"T"}, LEASE + 3), states()
    job.watched.signal(signal.SIGCONT)
    assert testing.eventually(lambda: "T" not in states(), PATIENCE), states()
    job.fail(1)
    job.wait_up(2)
    assert agents(cluster) == before
    result = job.end_well(2)
    assert result.rc == 0 and "does not answer" not in result.stderr and "lost" not in result.stderr, result


@pytest.mark.parametrize("args", [[], ["--max-restarts", "0"]], ids=["kept", "of one job"])
def test_sigterm_of_an_agent(hvdrun, cluster, no_leftovers, args):
    """It does the same to a kept agent as to an agent of one job."""
    job = Job(hvdrun, cluster, "kept-term", args)
    if args:
        job.wait_up(0)
        wardens = [process for process in cluster.processes("n2") if process.comm == "muster-warden"
                   and process.uid == cluster.uid("alice")]
        agent = wardens[0].ppid
    else:
        job.restarted_once()
        agent = agent_of(cluster, "n2")
    os.kill(agent, signal.SIGTERM)
    assert_gone(cluster, "kept-term", at_once(), ["n2"])
    result = job.watched.end()
    assert result.rc == 125, result
    assert re.search(r"^hvdrun: n2: the agent there ended .*: was it killed\?$", result.stderr, re.M), result
    assert_gone(cluster, "kept-term", at_once())
