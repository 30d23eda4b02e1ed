"""alice under a real Slurm on the test hosts (tests/sites/slurm.py), for the tests of hvdrun there.

A file of tests imports the fixtures: running_slurm, slurm, which also checks that nothing is left, and hvdrun_by."""

import os
import re
import sys

import pytest
from cluster import testing
from conftest import BIN_DIR, REPOSITORY
from console import PYTHON

sys.path.insert(0, str(REPOSITORY / "tests/sites"))
from slurm import PATIENCE, Slurm, missing  # noqa: E402

HVDRUN = str(BIN_DIR / "hvdrun")
MUSTER = str(BIN_DIR / "muster")
STRAYS = f"{PYTHON} -IS {REPOSITORY}/tests/programs/stray_tree.py"
LEASE = 15.0


@pytest.fixture(scope="module")
def running_slurm(clusters):
    problem = missing()
    if problem and os.environ.get("MUSTER_REQUIRE_CLUSTER") == "1":
        pytest.fail(f"slurm: {problem} (MUSTER_REQUIRE_CLUSTER=1)", pytrace=False)
    if problem:
        pytest.skip(f"slurm: {problem}")
    slurm = Slurm(clusters.get(4, home="shared"))
    slurm.up()
    yield slurm
    slurm.down()


@pytest.fixture(params=["ssh", "srun"])
def hvdrun_by(request):
    """The words that start hvdrun with this bootstrap."""
    return f"{HVDRUN} --bootstrap {request.param}"


@pytest.fixture
def slurm(running_slurm, _restored):
    """All nodes idle; after the test alice has no process and no session folder on any host."""
    running_slurm.repair()
    yield running_slurm
    nothing_left(running_slurm)


def nothing_left(slurm):
    """No process of alice's and no step of Slurm's on any host that runs, and no session folder; the socket of an hvdrun
    that was killed stays until the next `muster jobs`."""
    alice = slurm.cluster.uid("alice")

    def left():
        found = [f"{host}: {process.inner_pid} {process.comm} {' '.join(process.argv)}"
                 for host, processes in slurm.cluster.all_processes().items() for process in processes
                 if process.uid == alice or process.comm == "slurmstepd"]
        folders = [f"{host}: {path}" for host in slurm.cluster.hosts if slurm.cluster.running(host)
                   for path in slurm.cluster.path(host, "/tmp").glob(f"muster-{alice}/*") if not path.is_socket()]
        return found + folders

    testing.eventually(lambda: not left(), LEASE + 5.0)
    assert not left(), "left behind:\n" + "\n".join(left())


class Batch:
    """A job of alice's; its output goes to a file in her home.  text: the script for sbatch; argv: another program that
    submits a job and prints its id."""

    def __init__(self, slurm, text="", argv=()):
        self.slurm = slurm
        home = slurm.cluster.path("head", "/home/alice")
        (home / "job.sh").write_text("#!/bin/bash\n" + text)
        told = slurm.run("alice", list(map(str, argv)) or ["sbatch", "--parsable", "job.sh"])
        assert told.returncode == 0, told.stderr
        self.id = told.stdout.strip()
        assert re.fullmatch(r"\d+", self.id), told
        self._output = home / f"slurm-{self.id}.out"

    @property
    def output(self):
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    def wait_for(self, pattern, count=1, timeout=PATIENCE):
        found = lambda: len(re.findall(pattern, self.output, re.M)) >= count  # noqa: E731
        assert testing.eventually(found, timeout), f"{pattern!r} not {count} times:\n{self.output}\n{self.show()}"

    def show(self):
        """{field: value} of `scontrol show job`."""
        told = self.slurm.run("root", ["scontrol", "show", "job", self.id]).stdout
        return dict(word.partition("=")[::2] for word in told.split() if "=" in word)

    def end(self, timeout=PATIENCE):
        """(JobState, exit code, signal) once it has ended."""
        ended = lambda: self.show()["JobState"] not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING")  # noqa: E731
        assert testing.eventually(ended, timeout), f"{self.show()}\n{self.output}"
        fields = self.show()
        return fields["JobState"], *map(int, fields["ExitCode"].split(":"))


def agent_of(slurm, host):
    """The process of alice's agent: the parent of the warden."""
    processes = {process.pid: process for process in slurm.cluster.processes(host)}
    wardens = [process for process in processes.values() if process.comm == "muster-warden"]
    assert len(wardens) == 1, wardens
    return processes[wardens[0].ppid]


def under(slurm, host, name):
    """Whether alice's agent on this host is a descendant of a process of this name: slurmstepd, sshd."""
    processes = {process.pid: process for process in slurm.cluster.processes(host)}
    process = agent_of(slurm, host)
    while process and process.comm != name:
        process = processes.get(process.ppid)
    return process is not None
