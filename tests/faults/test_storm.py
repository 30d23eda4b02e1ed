"""200 jobs of random shapes, eight at a time on four hosts, and something is killed in each: hvdrun, an agent, a warden, a
rank, agent and warden, or it is interrupted, or nothing is done. Each ends in its time with a code that fits, and nothing
is left."""

import os
import random
import signal
import threading
import time

from cluster import testing
from conftest import rounds
from left import Left

JOBS = 200
AT_A_TIME = 8
ENDS = 120.0  # of one job; a lease is 15 s
SETTLES = 40.0
FAULTS = ("none", "none", "interrupt", "terminate", "kill-hvdrun", "kill-agent", "kill-warden", "kill-both", "kill-rank",
          "stop-warden")


def keepers(cluster, host, token):
    """(agent, warden) of the job with this token on the host, as far as they are there."""
    processes = {process.pid: process for process in cluster.processes(host)}
    ranks = [process for process in processes.values() if token in process.argv]
    for rank in ranks:
        warden = processes.get(rank.ppid)
        while warden is not None and warden.comm != "muster-warden":
            warden = processes.get(warden.ppid)
        if warden is not None:
            return processes.get(warden.ppid), warden
    return None, None


def kill(process, signo=signal.SIGKILL):
    try:
        if process is not None:
            os.kill(process.pid, signo)
    except ProcessLookupError:
        pass


class Storm:
    def __init__(self, hvdrun, cluster, seed, count):
        self._hvdrun, self._cluster, self._count = hvdrun, cluster, count
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._next = 0
        self.failed = []
        self.done = {}

    def run(self):
        threads = [threading.Thread(target=self._work) for _ in range(AT_A_TIME)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _take(self):
        with self._lock:
            if self._next == self._count:
                return None
            self._next += 1
            hosts = self._random.sample(["n1", "n2", "n3", "n4"], self._random.randint(1, 4))
            return self._next, hosts, self._random.choice(FAULTS), self._random.uniform(0.0, 2.0)

    def _work(self):
        while True:
            taken = self._take()
            if taken is None:
                return
            number, hosts, fault, moment = taken
            problem = self._one(f"storm-{os.getpid()}-{number}", hosts, fault, moment)
            with self._lock:
                self.done[fault] = self.done.get(fault, 0) + 1
                if problem:
                    self.failed.append(f"job {number} on {','.join(hosts)}, {fault} after {moment:.2f} s: {problem}")

    def _one(self, token, hosts, fault, moment):
        shape = ["-np", str(2 * len(hosts)), "-H", ",".join(f"{host}:2" for host in hosts)]
        seconds = "1" if fault == "none" else "1000"
        # A token is an argument of the rank and of its detached child.
        script = 'setsid sleep "$1" & exec sh -c \'sleep "$1"; : \' "$0" "$1"'
        command = self._hvdrun.start([*shape, "--kill-grace", "1", "sh", "-c", script, token, seconds])
        if fault not in ("none", "interrupt", "terminate", "kill-hvdrun"):
            testing.eventually(lambda: keepers(self._cluster, hosts[0], token)[1] or command.ended(), ENDS)
        time.sleep(moment)  # the moment is what is tried, nothing is waited for
        agent, warden = keepers(self._cluster, hosts[0], token)
        if fault == "interrupt":
            command.send_signal(signal.SIGINT)
        elif fault == "terminate":
            command.send_signal(signal.SIGTERM)
        elif fault == "kill-hvdrun":
            command.kill()
        elif fault == "kill-agent":
            kill(agent)
        elif fault == "kill-warden":
            kill(warden)
        elif fault == "kill-both":
            for process in (agent, warden):
                kill(process, signal.SIGSTOP)
            for process in (agent, warden):
                kill(process)
        elif fault == "kill-rank":
            kill(next((process for process in self._cluster.processes(hosts[0]) if token in process.argv), None))
        elif fault == "stop-warden":
            kill(warden, signal.SIGSTOP)
            command.send_signal(signal.SIGINT)
        try:
            out, err = command.communicate(None, ENDS)
        except Exception as problem:  # it hangs: say so, and go on with the storm
            command.kill()
            out, err = command.communicate()
            return f"did not end ({problem})\n{err.decode(errors='replace')}"
        expected = {"none": (0,), "interrupt": (130, 0), "terminate": (143, 0), "kill-hvdrun": (-9, 0),
                    "kill-agent": (125, 0), "kill-warden": (125, 0), "kill-both": (125, 0), "kill-rank": (137, 0, 125),
                    "stop-warden": (130, 0)}[fault]
        if command.returncode not in expected:
            return f"exit code {command.returncode}, not {expected}\n{err.decode(errors='replace')}"
        return None


def test_storm(hvdrun, cluster):
    hvdrun(["-np", "4", "-H", "n1:1,n2:1,n3:1,n4:1", "true"])  # the agent is on every host
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    left = Left(cluster)
    storm = Storm(hvdrun, cluster, seed, rounds(JOBS))
    storm.run()
    found = left.settle(SETTLES)
    print(f"{rounds(JOBS)} jobs ({', '.join(f'{fault} {count}' for fault, count in sorted(storm.done.items()))}), "
          f"{len(storm.failed)} failed, {len(found)} things left")
    assert not storm.failed and not found, "\n".join([*storm.failed, *found])
