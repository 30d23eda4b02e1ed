"""A zoo of real programs that hang (tests/programs/hang_zoo.py): each report names the rank, its host and its line.

All jobs run side by side, because they mostly wait: the first test starts them all, and each test checks one."""

import functools
import re
import signal
import subprocess
from dataclasses import dataclass, field

import pytest
from cluster import testing
from conftest import BIN_DIR, REPOSITORY, Hvdrun
from console import PYTHON, Watched
from mpi_programs import PROGRAMS, compiled

ZOO = REPOSITORY / "tests/programs/hang_zoo.py"
MUSTER = str(BIN_DIR / "muster")
DEAD_FS = REPOSITORY / "tests/programs/dead_fs.py"
PAIRS = [("n1", "n2"), ("n3", "n4")]
LIMIT = 3  # s without progress
SIDE_BY_SIDE = 6  # jobs that start at a time
LONG = 120  # s; torch needs a while on a busy machine


@dataclass(frozen=True)
class Hang:
    says: str  # a part of the cause
    rank: int = 1
    size: int = 2
    place: str = ""  # instead of a line of hang_zoo.py
    needs: str = ""  # a fixture's value, which is an argument
    options: dict = field(default_factory=dict)


HANGS = {
    "lock": Hang("does not move"),
    "rank0_sleeps": Hang('has not begun allreduce "allreduce.a", in which 1 rank waits; rank 0 does not move', rank=0),
    "empty_queue": Hang("does not move"),
    "extension_sleeps": Hang("does not move", needs="extension"),
    "stopped": Hang("is stopped by a signal"),
    "child": Hang("does not move"),
    "child_output": Hang("does not move"),
    "reads_stdin": Hang("does not move", rank=0, options={"stdin": subprocess.PIPE}),
    "debugger": Hang("does not move", rank=0, options={"stdin": subprocess.PIPE}),
    "file_lock": Hang("does not move"),
    "named_pipe": Hang("does not move"),
    "foreign_server": Hang("waits for a connection"),
    "event_loop": Hang("waits for a connection"),
    "waits_for_signal": Hang("does not move"),
    "file_system": Hang("request_wait_answer", needs="dead"),
    "file_system in state D": Hang("waits for a disk or a file system (state D", needs="dead_uninterruptible"),
    "swapped": Hang('is in allreduce "allreduce.b"', size=3),
    "native": Hang('has not begun allreduce, in which 1 rank waits', place="read ()", needs="native"),
    "torch_missing": Hang("does not move"),
    "torch_swapped": Hang("waits for other ranks elsewhere", size=3),
    "torch_key": Hang("while 1 rank waits for others"),
    "torch_loader": Hang("waits for a connection"),
    # These use a whole CPU until they are reported, so they are the last.
    "loop": Hang(""),
    "extension_spins": Hang("has been computing in one call", needs="extension"),
    "extension_spins_with_gil": Hang("has been computing in one call", needs="extension"),
}


def line_of(name):
    """The line of the zoo where this program hangs."""
    lines = ZOO.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# hangs: {name.split()[0]}"))


@pytest.fixture(scope="module")
def extension():
    return built("libhang_native.so", ["-shared", "-fPIC"])


@pytest.fixture(scope="module")
def native():
    library = BIN_DIR.parent / "lib"
    return built("hang_native", ["-DMUSTER_RANK", f"-I{REPOSITORY}/collectives/include", f"-L{library}", "-lmuster",
                                 f"-Wl,-rpath,{library}"])


def built(name, flags):
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    source = REPOSITORY / "tests/programs/hang_native.c"
    subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", PROGRAMS / name, source, *flags], check=True)
    return str(PROGRAMS / name)


class DeadFileSystem:
    """A FUSE file system on n2 that answers nothing but its own mount."""

    def __init__(self, cluster, folder):
        self.folder = folder
        cluster.run("n2", "alice", ["mkdir", "-p", folder], check=True)
        self._served = cluster.start("n2", "root", [PYTHON, "-IS", str(DEAD_FS), folder], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = self._served.stdout.readline()
        self.problem = "" if said == b"ready\n" else said.decode().strip()

    def end(self):
        """Unmounts it. Processes that wait for it go on: before, no signal ends them."""
        if self._served.stdin.closed:
            return
        self._served.stdin.close()
        self._served.wait(20)
        self._served.stdout.close()


@pytest.fixture(scope="module")
def file_systems(clusters):
    """A process that waits for the second one is in state D, as with a network file system: the kernel does not
    interrupt requests once the file system has refused an interrupt."""
    cluster = clusters.get(4)
    made = {name: DeadFileSystem(cluster, f"/tmp/zoo-{name}") for name in ("dead", "dead_uninterruptible")}
    interrupted = None
    if not any(each.problem for each in made.values()):
        program = ["timeout", "-s", "INT", "0.3", "stat", f"{made['dead_uninterruptible'].folder}/other"]
        interrupted = cluster.start("n2", "alice", program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield made
    for each in made.values():
        each.end()
    if interrupted:
        interrupted.wait(20)


@pytest.fixture(scope="module")
def zoo(clusters, file_systems, extension, native):
    """All jobs of HANGS, by name."""
    cluster = clusters.get(4)
    needed = {"extension": [extension], **{key: [each.folder] for key, each in file_systems.items()}}
    before = testing.Leftovers(cluster)
    hvdrun = Hvdrun(lambda: cluster)
    jobs = {}
    try:
        for name, hang in HANGS.items():
            if missing(name, file_systems):
                continue
            first, second = pair_of(name)
            program = [native] if name == "native" else [PYTHON, str(ZOO), name.split()[0], *needed.get(hang.needs, [])]
            jobs[name] = Watched(hvdrun, cluster, [
                "-np", str(hang.size), "-H", f"{first}:1,{second}:2", "--hang-timeout", str(LIMIT), "--on-hang", "kill",
                "--kill-grace", "1", *program], **hang.options)
            if len(jobs) >= SIDE_BY_SIDE:
                waits = list(jobs)[-SIDE_BY_SIDE]
                jobs[waits].out.wait_for("up", HANGS[waits].size, timeout=LONG)
        yield jobs
    finally:
        hvdrun.close()
        for each in file_systems.values():
            each.end()
    before.check(10)


def pair_of(name):
    return PAIRS[0] if HANGS[name].needs.startswith("dead") else PAIRS[list(HANGS).index(name) % 2]


def missing(name, file_systems):
    """What this machine lacks for the program; empty if nothing."""
    if name.startswith("torch") and not has_torch():
        return f"{PYTHON} has no torch with gloo"
    if HANGS[name].needs in file_systems and file_systems[HANGS[name].needs].problem:
        return f"no FUSE file system can be mounted: {file_systems[HANGS[name].needs].problem}"
    return ""


@functools.cache
def has_torch():
    return subprocess.run([PYTHON, "-c", "import torch.distributed as d; assert d.is_gloo_available()"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


def cause(result):
    """The cause in hvdrun's report. Fails if there is none, or more than one."""
    causes = re.findall(r"^hvdrun: cause +(.*)$", result.stderr, re.MULTILINE)
    assert len(causes) == 1, result
    assert result.stderr.count("the job seems to hang: no progress for ") == 1, result
    return causes[0]


@pytest.mark.parametrize("name", HANGS)
def test_the_report_names_rank_host_and_line(zoo, file_systems, name):
    if name not in zoo:
        pytest.skip(missing(name, file_systems))
    hang, job = HANGS[name], zoo[name]
    try:
        job.err.wait_for("hvdrun: cause", timeout=LONG)
    except AssertionError as early:
        raise AssertionError(job.end(90)) from early  # says how hvdrun ended
    if hang.needs in file_systems:
        file_systems[hang.needs].end()
    result = job.end(90)
    why = cause(result)
    host = pair_of(name)[0 if hang.rank == 0 else 1]
    assert f"rank {hang.rank} on {host} " in why and hang.says in why, result
    assert (hang.place or f"(hang_zoo.py:{line_of(name)})") in why, result
    assert result.rc == 137, result


# Ranks of MPI use their whole CPU while they wait, so these programs run after the others.
MPIS = {"mpich": ("mpicc.mpich", "mpich"), "openmpi": ("mpicc.openmpi", "libopenmpi-dev openmpi-bin")}


@pytest.fixture(scope="module", params=MPIS)
def mpi(request):
    return compiled("mpi_waits", *MPIS[request.param])


def test_a_stopped_rank_of_mpi(hvdrun, no_leftovers, mpi):
    result = hvdrun(["-np", "2", "-H", "n1:1,n2:1", "--hang-timeout", "2", "--on-hang", "kill", "--kill-grace", "1", mpi,
                     "stopped"], timeout=LONG)
    assert "rank 1 on n2 is stopped by a signal" in cause(result) and result.rc == 137, result


@pytest.mark.parametrize("what", ["no-sender", "absent"])
def test_what_cannot_be_known_of_mpi(hvdrun, cluster, no_leftovers, mpi, what):
    """No rank of these programs can be blamed from outside, because others compute, as far as can be seen."""
    job = Watched(hvdrun, cluster, ["-np", "2", "-H", "n1:1,n2:1", "--hang-timeout", "1", mpi, what])
    job.out.wait_for("up", 2)
    explained = cluster.run("head", "alice", [MUSTER, "stacks", "--explain"], timeout=60)
    assert explained.returncode == 0 and "not known: " in explained.stdout, explained
    native = cluster.run("head", "alice", [MUSTER, "stacks", "--native"], timeout=60)
    assert native.returncode == 0 and ("MPI_Recv" if what == "no-sender" else "read [libc") in native.stdout, native
    job.signal(signal.SIGINT)
    assert "seems to hang" not in job.end().stderr


# In the first generation, rank 1 hangs at its fifth step.
SLEEPS = "            time.sleep(1000)"
ELASTIC = r"""
import os, time
import numpy as np
import muster.elastic
import muster.numpy as hvd

hvd.init()
state = muster.elastic.ObjectState(step=0)

@muster.elastic.run
def train(state):
    while state.step < 40:
        if hvd.size() == 3 and hvd.rank() == 1 and state.step == 5:
            time.sleep(1000)
        hvd.allreduce(np.ones(1), name="step")
        state.step += 1
        state.commit()
    print("done", hvd.rank(), "of", hvd.size(), flush=True)

train(state)
"""


def test_an_elastic_job_goes_on_without_the_rank(hvdrun, no_leftovers):
    result = hvdrun(["-H", "n1:1,n2:1,n3:1", "--min-np", "2", "--hang-timeout", "3", "--on-hang", "restart", "--kill-grace",
                     "1", PYTHON, "-c", ELASTIC], timeout=120)
    why = cause(result)
    assert 'rank 1 on n2 has not begun allreduce "allreduce.step"' in why, result
    assert f"train (<string>:{ELASTIC.splitlines().index(SLEEPS) + 1})" in why, result
    assert result.rc == 0 and len(re.findall("done . of 2", result.stdout)) == 2, result
