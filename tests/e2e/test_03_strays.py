"""Nothing of a job is left on any host, however it ends: ranks with detached, deaf and daemonised children, each way
to end, each containment that the machine allows, as alice and as root, beside bob's identical job.

The default run leaves out combinations that differ in nothing but who asked; MUSTER_SLOW=1 runs them all.
"""

import os
import re
import signal
import time
import uuid

import pytest
from cluster import testing
from conftest import REPOSITORY, Hvdrun

PYTHON = "/usr/bin/python3"
PROGRAM = str(REPOSITORY / "tests/programs/stray_tree.py")
SHAPE = ["-np", "4", "-H", "n1:2,n2:2"]
RANKS, CHILDREN = 4, 4
GRACE = 0.5
LEASE = 15.0
PATIENCE = 120.0  # for a job to come up on a busy machine
ENDS = ("normal-end", "ctrl-c", "rank-fails", "kill-hvdrun", "kill-agent", "kill-warden", "kill-agent-and-warden")


def allowance():
    """The 2 s that the job's processes may outlive the event and the grace; on a machine that is shared with n times as
    many runnable processes as it has cores, n times that, but not more than 5 times."""
    return 2.0 * min(5.0, max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0))))


@pytest.fixture(scope="module")
def hosts(clusters):
    """n1..n4 and head; alice may divide her cgroup where the machine has cgroup version 2."""
    return clusters.get(4, delegate=True)


def look(hosts, token, user, only=None):
    """[(host, Process)] of the job: the ranks, all that they have started, agents and wardens of this user."""
    return [(host, process) for host, found in hosts.all_processes(only).items() for process in found
            if process.comm != "hvdrun" and (token in process.argv or is_ours(hosts, process, user))]


def is_ours(hosts, process, user):
    """An agent or warden of this user."""
    is_muster = process.comm == "muster-warden" or "--stdio" in process.argv
    return is_muster and process.uid == hosts.uid(user)


def ranks_of(processes):
    return [(host, process) for host, process in processes if process.comm == "stray-rank"]


def agent_and_warden(hosts, host, user):
    processes = {process.pid: process for process in hosts.processes(host) if process.uid == hosts.uid(user)}
    wardens = [process for process in processes.values() if process.comm == "muster-warden"]
    assert len(wardens) == 1, wardens
    return processes[wardens[0].ppid], wardens[0]


def describe(processes):
    return "\n".join(f"{host}: {testing.inside(process)}" for host, process in processes)


class Job:
    """hvdrun with ranks that have all their children."""

    def __init__(self, hvdrun, hosts, user, level, shape, ranks, seconds=180):
        self.hosts, self.user, self.level, self.ranks, self._hvdrun = hosts, user, level, ranks, hvdrun
        self.token = "token-" + uuid.uuid4().hex
        options = ["--contain", level, "--kill-grace", GRACE, "--start-timeout", PATIENCE]
        program = [PYTHON, "-IS", PROGRAM, self.token, seconds]
        self.command = hvdrun.start([*shape, *options, *program], user, on=hosts)

    def wait_ready(self):
        def is_ready():
            return len(ranks_of(self.processes())) == self.ranks or self.command.ended()

        testing.eventually(is_ready, PATIENCE)
        if self.command.ended():
            pytest.fail(f"the job ended by itself\n{self._hvdrun.finish(self.command)}")
        found = [process for process in self.processes() if self.token in process[1].argv]
        assert len(found) == self.ranks * (1 + CHILDREN), describe(found)
        return self

    def processes(self, only=None):
        return look(self.hosts, self.token, self.user, only)

    def end(self, **options):
        return self._hvdrun.finish(self.command, **options)

    def say(self):
        """What its hvdrun, which is ended for that, has said."""
        ended = self.command.ended()
        if not ended:
            self.command.kill()
        return f"{self.user}'s job, --contain {self.level}, hvdrun {'had ended' if ended else 'still ran'}: {self.end()}"


class BobsJob:
    """The same command of bob's on the same hosts, for as long as this file runs."""

    def __init__(self, hosts):
        self._hosts = hosts
        self._hvdrun = Hvdrun(lambda: hosts)
        self._job = Job(self._hvdrun, hosts, "bob", "auto", SHAPE, RANKS, seconds=3600).wait_ready()
        self._before = self._keys()

    def _keys(self):
        return {(host, process.key, process.comm) for host, process in self._job.processes()}

    def check(self):
        assert not self._job.command.ended(), self._job.end()
        now = self._keys()
        assert now == self._before, f"bob's job: gone {self._before - now}, new {now - self._before}"

    def finish(self):
        try:
            self.check()
            for _, process in ranks_of(self._job.processes()):
                os.kill(process.pid, signal.SIGUSR1)
            result = self._job.end()
            assert result.rc == 0, result
            assert f"{RANKS * CHILDREN} leftover processes killed" in result.stderr, result
        finally:
            self._hvdrun.close()


@pytest.fixture(scope="module")
def bob(hosts):
    job = BobsJob(hosts)
    yield job
    job.finish()


@pytest.fixture
def beside_bob(clusters, hosts, bob):
    """After the test: bob's job and his other processes as they were."""
    bystander = clusters.bystander(hosts)
    yield
    bob.check()
    bystander.check()


def possible(hosts, user, level):
    """Why this machine does not allow the level, found without Muster; None if it does."""
    if level == "cgroup" and not hosts.state["hosts"]["n1"]["cgroup"]:
        return "this machine gives test hosts no cgroup version 2"
    if level == "pidns":
        flags = ["--pid", "--fork", "--mount-proc"] if user == "root" else ["--user", "--pid", "--fork", "--mount-proc"]
        probe = hosts.run("n1", user, ["unshare", *flags, "true"])
        return None if probe.returncode == 0 else f"no PID namespace for {user}: {probe.stderr.strip()}"
    return None


def require(hosts, user, level):
    problem = possible(hosts, user, level)
    if problem:
        pytest.skip(problem)


LEVELS = [("alice", "subreaper"), ("alice", "cgroup"), ("alice", "pidns"), ("alice", "auto"),
          ("root", "subreaper"), ("root", "cgroup"), ("root", "pidns"), ("root", "auto")]
# The others run with MUSTER_SLOW=1: with these every user, level and way to end is there at least once, and the ways
# that differ by who cleans up (launcher, warden, agent, sweep) are with each level.
BRIEF = {("alice", "subreaper"): ENDS, ("alice", "cgroup"): ENDS[3:], ("alice", "pidns"): ENDS[3:],
         ("alice", "auto"): ENDS[:2], ("root", "subreaper"): ENDS[-1:], ("root", "cgroup"): ENDS[-1:],
         ("root", "pidns"): ENDS[4:6], ("root", "auto"): ENDS}
MATRIX = [pytest.param(user, level, end, id=f"{user}-{level}-{end}") for user, level in LEVELS for end in ENDS
          if os.environ.get("MUSTER_SLOW") == "1" or end in BRIEF[user, level]]


def cause(job, end):
    """Makes the end happen; returns (the time, hvdrun's exit code, what it says)."""
    hosts, command = job.hosts, job.command
    lost = r"^hvdrun: n2: the agent there ended .*: was it killed\?$"
    if end in ("normal-end", "rank-fails"):
        ranks = ranks_of(job.processes())
        begin = time.monotonic()
        if end == "rank-fails":
            host, process = next(found for found in ranks if found[1].environ["RANK"] == "2")
            os.kill(process.pid, signal.SIGUSR2)
            return begin, 3, rf"^hvdrun: rank 2 on {host} \(pid \d+.*\): exit code 3$"
        for _, process in ranks:
            os.kill(process.pid, signal.SIGUSR1)
        return begin, 0, rf": ended with exit code 0, {RANKS * CHILDREN} leftover processes killed$"
    if end == "ctrl-c":
        begin = time.monotonic()
        command.send_signal(signal.SIGINT)
        return begin, 130, r": stopped by Ctrl-C \(SIGINT\)"
    if end == "kill-hvdrun":
        begin = time.monotonic()
        command.kill()
        return begin, -signal.SIGKILL, r"\A\Z"
    agent, warden = agent_and_warden(hosts, "n2", job.user)
    begin = time.monotonic()
    if end == "kill-agent":
        os.kill(agent.pid, signal.SIGKILL)
        return begin, 125, lost
    if end == "kill-warden":
        os.kill(warden.pid, signal.SIGKILL)
        return begin, 125, r"^hvdrun: n2: the warden, the parent of the ranks, was killed"
    # Stopped first, so that neither sees the other's end; the warden ends first, as the agent's end would continue it.
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in (warden, agent):
            os.kill(process.pid, number)
    return begin, 125, lost


def wait_gone(job, begin, limit, only=None, beside=()):
    """Seconds from begin until nothing of the job was there; at most limit. beside: other jobs, whose agents look like
    this one's."""
    testing.eventually(lambda: not job.processes(only), begin + limit - time.monotonic())
    left = job.processes(only)
    took = time.monotonic() - begin
    if left:
        found = describe(left)  # as they are now
        late = testing.eventually(lambda: not job.processes(only), 10)
        said = "\n".join(each.say() for each in [job, *(other for other in beside if other is not job)])
        pytest.fail(f"{len(left)} processes of the job were there {took:.2f} s after the event, allowed {limit:.2f} s; "
                    f"{'all gone' if late else 'still there'} at {time.monotonic() - begin:.2f} s:\n{found}\n{said}")
    return took


@pytest.mark.parametrize("user,level,end", MATRIX)
def test_nothing_is_left(hvdrun, hosts, beside_bob, user, level, end):
    require(hosts, user, level)
    before = testing.Leftovers(hosts)
    job = Job(hvdrun, hosts, user, level, SHAPE, RANKS).wait_ready()
    begin, code, says = cause(job, end)
    grace = 0 if end == "normal-end" else GRACE
    wait_gone(job, begin, grace + allowance())
    result = job.end()
    assert result.rc == code, result
    assert re.search(says, result.stderr, re.M), result
    before.check()


@pytest.mark.parametrize("user,level", LEVELS, ids=lambda value: value)
def test_the_level_is_used(hvdrun, hosts, user, level):
    """What was asked for is what the host reports; what the host does not allow is refused, with its name."""
    problem = possible(hosts, user, level)
    options = ["--contain", level, "--verbose", "--start-timeout", PATIENCE]
    result = hvdrun(["-np", "1", "-H", "n1", *options, "true"], user, on=hosts, timeout=PATIENCE)
    if problem:
        assert result.rc == 125, result
        assert re.search(r"^hvdrun: n1: .*does not allow the requested containment", result.stderr, re.M), result
        return
    wanted = level
    if level == "auto":
        wanted = "pidns" if user == "root" and not possible(hosts, user, "pidns") else (
            "subreaper" if possible(hosts, user, "cgroup") else "cgroup")
    assert result.rc == 0, result
    assert re.search(rf"n1: up, \d+ cores, containment [^:]*\b{wanted}\b", result.stderr), result


def test_link_of_a_host_cut_for_good(hvdrun, hosts, beside_bob):
    """Every user and level at once, because a lease takes its time. bob's ranks are not on the host that is cut."""
    jobs = [Job(hvdrun, hosts, user, level, ["-np", "2", "-H", "n1:1,n4:1"], 2) for user, level in LEVELS
            if not possible(hosts, user, level)]
    for job in jobs:
        job.wait_ready()
    begin = time.monotonic()
    hosts.cut("n4", "drop")
    reachable = [host for host in hosts.hosts if host != "n4"]
    for job in jobs:
        wait_gone(job, begin, LEASE + 1 + allowance(), ["n4"], jobs)
    # An agent does not show whose it is: only when all jobs have ended must all agents have.
    limit = LEASE + 1 + GRACE + allowance()
    if not testing.eventually(lambda: all(job.command.ended() for job in jobs), begin + limit - time.monotonic()):
        pytest.fail(f"not all jobs had ended {limit:.2f} s after the link was cut\n" +
                    "\n".join(job.say() for job in jobs))
    ended = time.monotonic()
    for job in jobs:
        wait_gone(job, ended, allowance(), reachable, jobs)
    for job in jobs:
        result = job.end()
        assert result.rc == 125, result
        assert re.search(r"^hvdrun: n4: not heard of for 15 s \(its lease\)", result.stderr, re.M), result
        assert "hvdrun: n4: not reachable, so it is not known whether processes of the job are left" in result.stderr
        assert "stopped because a host was lost" in result.stderr.splitlines()[-1], result
    # sshd there does not know yet that its client is gone.
    for process in hosts.processes("n4"):
        if process.comm == "sshd" and re.match("sshd: (alice|root)", process.argv[0]):
            os.kill(process.pid, signal.SIGKILL)
