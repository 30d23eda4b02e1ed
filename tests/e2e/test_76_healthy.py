"""50 healthy programs (tests/programs/healthy_zoo.py and others), silent for longer than three time limits: no report.

All of a group run side by side: the first test of the group starts them, and each test checks one."""

import shlex
import subprocess
import sys

import pytest
from cluster import testing
from conftest import REPOSITORY, Hvdrun
from console import PYTHON, Watched
from mpi_programs import compiled
from test_72_hang_zoo import PAIRS, has_torch

sys.path.insert(0, str(REPOSITORY / "tests/programs"))
import healthy_zoo  # noqa: E402

LIMIT = 3  # s without progress
SECONDS = 12  # of each program; more than three limits and the time of the looks
GROUPS = 8  # so many that programs which compute leave each other some of the cores; neighbours are in different ones
START_AT_ONCE = 5

# Programs without Python: a shell's words.
OTHERS = {
    "sleep": f"sleep {SECONDS}",
    "terminal": f"timeout {SECONDS} cat || true",
    "log": f"timeout {SECONDS} tail -f /dev/null || true",
    "shell loop": f"timeout {SECONDS} sh -c 'while :; do :; done' || true",
    "background": f"timeout {SECONDS} sh -c 'while :; do :; done' & wait; true",
    "copy": f"timeout {SECONDS} dd if=/dev/zero of=/dev/null bs=1M || true",
    "dots": f"for i in $(seq {SECONDS}); do printf .; sleep 1; done",
}
MPIS = {"mpich": ("mpicc.mpich", "mpich"), "openmpi": ("mpicc.openmpi", "libopenmpi-dev openmpi-bin")}
PROGRAMS = [*healthy_zoo.PROGRAMS, *OTHERS, *MPIS]


def command_of(name):
    """None if this machine lacks what the program needs."""
    if name in MPIS:
        try:
            return [compiled("mpi_waits", *MPIS[name]), "computes"]
        except pytest.skip.Exception:
            return None
    if name in OTHERS:
        return ["sh", "-c", OTHERS[name]]
    if healthy_zoo.PROGRAMS[name].kind == "gloo" and not has_torch():
        return None
    return [PYTHON, str(REPOSITORY / "tests/programs/healthy_zoo.py"), name]


@pytest.fixture(scope="module")
def started(clusters):
    """started(name): the group of the program runs. It returns {name: job} of the group."""
    cluster = clusters.get(4)
    before = testing.Leftovers(cluster)
    hvdrun = Hvdrun(lambda: cluster)
    groups = {}

    def start(name):
        group = PROGRAMS.index(name) % GROUPS
        if group not in groups:
            groups[group] = {each: job(hvdrun, cluster, number, each)
                             for number, each in enumerate(PROGRAMS[group::GROUPS])}
        return groups[group]

    yield start
    hvdrun.close()
    before.check()


def job(hvdrun, cluster, number, name):
    command = command_of(name)
    if command is None:
        return None
    first, second = PAIRS[number % 2]
    stdin = subprocess.PIPE if name == "terminal" else subprocess.DEVNULL
    where = ["-np", "3", "-H", f"{first}:1,{second}:2"] if meets(name) else ["-np", "2", "-H", f"{first}:1,{second}:1"]
    begun = Watched(hvdrun, cluster, [*where, "--hang-timeout", str(LIMIT), *command], stdin=stdin,
                    env={"ZOO_SECONDS": str(SECONDS)})
    if number % START_AT_ONCE == 0 and name not in OTHERS:
        begun.out.wait_for("up")
    return begun


def meets(name):
    return name in healthy_zoo.PROGRAMS and healthy_zoo.PROGRAMS[name].kind != "strangers"


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_report(started, name):
    begun = started(name)[name]
    if begun is None:
        pytest.skip(f"this machine lacks what {name} needs")
    result = begun.end(90)
    assert result.rc == 0 and "seems to hang" not in result.stderr, result
    assert result.elapsed > 3 * LIMIT, result


def test_there_are_fifty():
    assert len(PROGRAMS) >= 50, shlex.join(PROGRAMS)
