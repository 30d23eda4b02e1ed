"""A training on digits under random faults for many generations: ranks, agents and hosts are killed and stopped, links are
cut and healed, the script that lists hosts fails, hangs or says nothing. The model is that of an undisturbed run, no step
counts twice, nothing is left, and the memory of launcher and agents does not grow.

MUSTER_SOAK_GENERATIONS=200 is the long form, MUSTER_SOAK_SEED=N repeats a run."""

import os
import pathlib
import random
import re
import signal
import statistics
import time

import pytest
from cluster import testing
from conftest import BIN_DIR
from console import PYTHON, Watched
from elastic_site import Site

GENERATIONS = int(os.environ.get("MUSTER_SOAK_GENERATIONS", "8"))
SEED = int(os.environ.get("MUSTER_SOAK_SEED", "1"))
TRAINING = pathlib.Path(__file__).with_name("elastic_digits.py")
HOSTS = [f"n{number}:2" for number in range(1, 5)]
# A host that falls silent costs the lease (15 s) and then what ranks wait for each other, twice 30 s.
PATIENCE = 120.0
FOREVER = 10**9
PAUSE = "0.03"


class Soak:
    """The job, and the faults that it gets."""

    def __init__(self, site, job, chance, bystander):
        self._site, self._job, self._chance, self._bystander = site, job, chance, bystander
        self._memory = []  # {(host, pid): (resident bytes, open files)} after each generation
        self._log = []

    # These read the job's output.

    def generation(self):
        """The number of changes that the job went through; -1 before its first world."""
        return self._job.out.text.count("world of ") - 1

    def size(self):
        return int(re.findall(r"world of (\d+)", self._job.out.text)[-1])

    def progress(self):
        """The number of steps that the job has printed."""
        return self._job.out.text.count("step ")

    def wait(self, condition, what):
        def is_over():
            assert not self._job.ended(), f"the job has ended while {what}"
            return condition()

        begin = time.monotonic()
        try:
            assert testing.eventually(is_over, PATIENCE), f"{what}: not within {PATIENCE:g} s"
        except AssertionError as problem:
            raise AssertionError(f"{problem}\nfaults: {self._log[-4:]}\n--- stdout\n{self._job.out.text[-300:]}\n"
                                 f"--- stderr\n{self._job.err.text[-4000:]}") from None
        return time.monotonic() - begin

    def steps(self, count=2):
        goal = self.progress() + count
        self.wait(lambda: self.progress() >= goal, "steps go on")

    # Faults. Each returns whether the ranks must change.

    def _agents(self, host):
        return [each for each in self._site.processes(host) if each.comm.startswith(("muster", ".agent", "agent-"))
                or "/muster/agent-" in "".join(each.argv[:1]) or "/muster/.agent-" in "".join(each.argv[:1])]

    def _ranks(self, host):
        return [each for each in self._site.processes(host) if str(TRAINING) in each.argv]

    def _kill(self, processes):
        for process in processes:
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return bool(processes)

    def _hosts(self):
        """Those of the present world that have ranks. Ranks that are about to join do not count."""
        members = re.findall(r"world of .* on (.*)", self._job.out.text)[-1].split()
        return [host for host in members if self._ranks(host)]

    def _host(self):
        return self._chance.choice(self._hosts())

    def rank_dies(self):
        return self._kill([self._chance.choice(self._ranks(self._host()))])

    def two_ranks_die(self):
        hosts = self._hosts()
        if len(hosts) < 3:
            return False
        return self._kill([self._chance.choice(self._ranks(host)) for host in self._chance.sample(hosts, 2)])

    def agent_dies(self):
        return self._kill(self._agents(self._host()))

    def agent_stops(self):
        agents = self._agents(self._host())
        for process in agents:
            os.kill(process.pid, signal.SIGSTOP)
        self.steps()
        for process in agents:
            os.kill(process.pid, signal.SIGCONT)
        return False

    def link_flickers(self):
        host = self._host()
        self._site.cluster.cut(host)
        testing.eventually(lambda: False, self._chance.uniform(0.2, 2))
        self._site.cluster.heal(host)
        return False

    def link_breaks(self):
        """Until the job has gone on without the host."""
        host, before = self._host(), self.generation()
        self._site.cluster.cut(host, self._chance.choice(["drop", "cable", "down"]))
        self.wait(lambda: self.generation() > before, f"{host} is cut off")
        self._site.cluster.heal(host)
        self._site.end_sessions(host)
        return True

    def power_fails(self):
        host, before = self._host(), self.generation()
        self._bystander.check()
        self._site.cluster.kill_host(host)
        self.wait(lambda: self.generation() > before, f"{host} has no power")
        self._site.cluster.boot(host)
        self._bystander.restore()
        return True

    def host_leaves(self):
        host = self._host()
        before = self.generation()
        self._site.hosts(*[line for line in HOSTS if line.split(":")[0] != host])
        self.wait(lambda: self.generation() > before, f"{host} is not in the list")
        self._site.hosts(*HOSTS)
        return True

    def script_is_ill(self):
        self._site.answer_once(self._chance.choice(["exit 1", "true", "sleep 5", "echo n1:x", "echo n1:2"]))
        self._site.wait_for_calls(3)
        return False

    def disturb(self):
        faults = [self.rank_dies] * 4 + [self.two_ranks_die, self.agent_dies, self.agent_dies, self.agent_stops,
                                         self.link_flickers, self.host_leaves, self.script_is_ill]
        if GENERATIONS >= 50 and self._chance.random() < 0.02:
            faults = [self.link_breaks, self.power_fails]  # they take a minute each
        fault = self._chance.choice(faults)
        before = self.generation()
        self._log.append(f"{fault.__name__} in generation {before}")
        if fault():
            taken = self.wait(lambda: self.generation() > before, f"after {fault.__name__}")
            self._log[-1] += f", {taken:.1f} s"
        self.steps()
        self.note_memory()
        print(self._log[-1], flush=True)

    def grow(self):
        """Hosts come back when their time on the black-list is over."""
        self.wait(lambda: self.size() >= 4, "hosts come back")

    # Memory.

    def note_memory(self):
        noted = {}
        watched = [("head", self._job.command.real_pid)]
        watched += [(host, each.pid) for host in self._site.cluster.nodes for each in self._agents(host)]
        for host, pid in watched:
            try:
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
                files = len(os.listdir(f"/proc/{pid}/fd"))
            except OSError:
                continue
            resident = re.search(r"VmRSS:\s*(\d+)", status)
            if resident:
                noted[host, pid] = (int(resident[1]) * 1024, files)
        self._memory.append(noted)

    def check_memory(self):
        """The last third beside the first."""
        third = max(1, len(self._memory) // 3)

        def middle(notes, is_launcher, index):
            return statistics.median([value[index] for noted in notes for (host, _), value in noted.items()
                                      if (host == "head") == is_launcher])

        for is_launcher, who in ((True, "launcher"), (False, "agents")):
            for index, what, slack in ((0, "bytes", 4 << 20), (1, "files", 8)):
                first, last = (middle(part, is_launcher, index) for part in (self._memory[:third], self._memory[-third:]))
                print(f"{who}: {what} {first:.0f} then {last:.0f}")
                assert last <= first * 1.1 + slack, f"{who}: {what} grew from {first:.0f} to {last:.0f}"


def outcome(result):
    found = re.findall(r"trained (\d+) steps, counted (\d+): accuracy ([\d.]+), weights ([\d.]+)", result.stdout)
    assert len(found) == 1, result
    steps, count, accuracy, weights = found[0]
    return int(steps), int(count), float(accuracy), float(weights)


def check_steps(text):
    """Each world begins where the last one was, or one step before: ranks commit every step."""
    last = 0
    for kind, number, begin in re.findall(r"(step|world of) (\d+)(?: from (\d+))?", text):
        if kind == "step":
            assert int(number) == last + 10, f"step {number} follows {last}"
            last = int(number)
        else:
            assert last - 1 <= int(begin) < last + 12, f"a world of {number} begins at {begin} after {last}"
            last = int(begin) // 10 * 10


def test_training_under_random_faults(hvdrun, cluster, bystander, no_leftovers):
    print(f"MUSTER_SOAK_SEED={SEED}")
    site = Site(hvdrun, cluster, "drop-in")
    site.hosts(*HOSTS)
    job = Watched(hvdrun, cluster, ["-np", "8", "--min-np", "2", "--max-np", "8", "--host-discovery-script", site.script,
                                    "--blacklist-cooldown-range", "1", "3", PYTHON, TRAINING, str(FOREVER), PAUSE])
    soak = Soak(site, job, random.Random(SEED), bystander)
    soak.wait(lambda: soak.generation() == 0, "the job starts")
    soak.steps()
    while soak.generation() < GENERATIONS:
        soak.grow()
        soak.disturb()
    result = site.stop(job)
    assert result.rc == 0, result
    steps, count, accuracy, weights = outcome(result)
    check_steps(result.stdout)
    assert count == steps, result
    site.forget("stop")
    calm = outcome(hvdrun(["-np", "2", "-H", "n1:2", PYTHON, TRAINING, str(steps)], timeout=600))
    print(f"{steps} steps in {soak.generation()} generations: accuracy {accuracy}, weights {weights}; undisturbed: {calm}")
    assert calm[:2] == (steps, steps)
    assert abs(calm[2] - accuracy) <= 0.01 and abs(calm[3] - weights) <= 0.01 * weights
    soak.check_memory()
