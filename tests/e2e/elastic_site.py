"""Hosts whose list changes while an elastic job runs on them, and the launchers and libraries of such a job.

    site = Site(hvdrun, cluster, "drop-in")
    site.hosts("n1:1", "n2:1")
    job = site.start(["-np", "2", "--host-discovery-script", site.script])
    job.up(2)                          # all ranks of a world of two have met
    site.answer_once("exit 1")         # the next call of the script fails
    result = site.stop(job)
"""

import os
import pathlib
import re
import signal

from cluster import testing
from conftest import BIN_DIR
from console import PYTHON, Watched

PEER = BIN_DIR.parent / "peers/horovod/bin"
TRAINEE = pathlib.Path(__file__).with_name("elastic_trainee.py")
HOME = "/home/alice"
# Answers with the list, or once with what the file "once" does.
SCRIPT = f"""#!/bin/sh
cd {HOME}
echo call >> calls
[ -e once ] && mv once taken && exec sh ./taken
cat hosts
"""
# horovodrun asks for the hosts once a second; Horovod's own tests ask a hundred times.
EAGER = """
import sys
import horovod.runner.elastic.driver as driver
driver.DISCOVER_HOSTS_FREQUENCY_SECS = 0.01
from horovod.runner.launch import run_commandline
sys.argv[0] = "horovodrun"
run_commandline()
"""


class Job(Watched):
    """A running elastic job of elastic_trainee.py."""

    def up(self, size, timeout=60.0, times=1):
        """Waits for `times` worlds of that size."""
        try:
            self.out.wait_for(rf"up \d+ of {size} at \d+ on", size * times, timeout)
        except AssertionError as problem:
            raise AssertionError(f"{problem}\n--- stderr\n{self.err.text}") from None

    def worlds(self):
        """[(size, {rank: (host, pid)})] in order, each world that all ranks joined; rank 0's print comes first or not."""
        found = []
        for rank, size, step, host, pid in re.findall(r"up (\d+) of (\d+) at (\d+) on (\S+) pid (\d+)", self.out.text):
            key = (int(size), int(step))
            world = next((each for each in reversed(found) if each[0] == key and int(rank) not in each[1]), None)
            if world is None:
                world = (key, {})
                found.append(world)
            world[1][int(rank)] = (host, int(pid))
        return [(key[0], members) for key, members in found]


def done(result):
    """The hosts of the ranks that reached the end, by rank; all ranks of one world, at one step."""
    ends = re.findall(r"done (\d+) of (\d+) at (\d+) on (\S+)", result.stdout)
    assert ends and len({(size, step) for _, size, step, _ in ends}) == 1, result
    ends.sort(key=lambda each: int(each[0]))
    assert [int(each[0]) for each in ends] == list(range(int(ends[0][1]))), result
    return [host for _, _, _, host in ends]


class Site:
    def __init__(self, hvdrun, cluster, kind):
        """kind: "drop-in" and "horovod" are libraries under hvdrun; "horovodrun" is Horovod's own launcher, and "eager"
        the same with the frequency of its tests."""
        self._hvdrun, self.cluster, self.kind = hvdrun, cluster, kind
        self.script = f"{HOME}/hosts.sh"
        self._write("hosts.sh", SCRIPT, 0o755)
        self.forget("stop", "started", "once", "taken", "calls")

    def forget(self, *names):
        """Removes these files on all hosts."""
        for host in self.cluster.hosts:
            for name in names:
                self.cluster.path(host, f"{HOME}/{name}").unlink(missing_ok=True)

    def _write(self, name, text, mode=0o644):
        """As a whole: a reader sees the old file or the new one."""
        new = self.cluster.path("head", f"{HOME}/{name}.new")
        new.write_text(text)
        new.chmod(mode)
        os.chown(new, self.cluster.uid("alice"), -1)
        new.rename(new.with_name(name))

    def hosts(self, *lines):
        """What the script answers from now on."""
        self._write("hosts", "".join(line + "\n" for line in lines))

    def answer_once(self, text):
        """The next call of the script runs this shell text in its place."""
        self._write("once", text + "\n")

    def answered(self):
        """Whether a call has given the answer of answer_once()."""
        return not self.cluster.path("head", f"{HOME}/once").exists()

    def calls(self):
        file = self.cluster.path("head", f"{HOME}/calls")
        return file.read_text().count("\n") if file.exists() else 0

    def wait_for_calls(self, more, timeout=30.0):
        """Until the script was called so many times from now on."""
        before = self.calls()
        assert testing.eventually(lambda: self.calls() >= before + more, timeout), "the script is not called"

    def start(self, options, trainee=(), env=None):
        env = {name: str(value) for name, value in (env or {}).items()}
        if self.kind in ("drop-in", "horovod"):
            python = PYTHON if self.kind == "drop-in" else PEER / "python"
            forwarded = [word for name, value in env.items() for word in ("-x", f"{name}={value}")]
            return Job(self._hvdrun, self.cluster, [*options, *forwarded, python, TRAINEE, *trainee])
        launcher = [PEER / "horovodrun"] if self.kind == "horovodrun" else [PEER / "python", "-c", EAGER]
        argv = [*launcher, "--network-interfaces", self.cluster.state["hosts"]["n1"]["nic"], *options, PEER / "python",
                TRAINEE, *trainee]
        return Job(self._hvdrun, self.cluster, argv=[str(word) for word in argv], env=env)

    def started(self):
        """Processes that start from now on are new."""
        self._touch("started")

    def _touch(self, name):
        for host in self.cluster.nodes:
            if self.cluster.running(host):
                self.cluster.path(host, f"{HOME}/{name}").touch()

    def stop(self, job, timeout=60.0):
        """The ranks end at their next step."""
        self._touch("stop")
        return job.end(timeout)

    def processes(self, host):
        """Those of alice."""
        return [each for each in self.cluster.processes(host) if each.uid == self.cluster.uid("alice")]

    def _signal(self, host, number, is_meant=lambda process: True):
        for process in self.cluster.processes(host):
            if process.inner_pid != 1 and is_meant(process):
                try:
                    os.kill(process.pid, number)
                except ProcessLookupError:
                    pass

    def freeze(self, host):
        """Stops all processes, sshd too. Its kernel still answers, as that of a host whose disk hangs."""
        self._signal(host, signal.SIGSTOP)

    def thaw(self, host):
        self._signal(host, signal.SIGCONT)

    def end_sessions(self, host):
        """Ends alice's ssh sessions. Those of a host that was cut off end with their next packet, up to a minute later."""
        self._signal(host, signal.SIGKILL, lambda process: process.comm == "sshd" and "alice" in process.argv[0])

    def clear(self):
        """Ends what horovodrun leaves behind."""
        for host in self.cluster.hosts:
            if self.cluster.running(host):
                self._signal(host, signal.SIGKILL, lambda process: process.uid == self.cluster.uid("alice"))

