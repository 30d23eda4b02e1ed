"""Elastic jobs of test processes: the fixture that starts them, and their logs."""

import json
import os
import pathlib
import sys
import time

import pytest
from conftest import REPOSITORY, clean_environment
from launcher_double import LauncherDouble

FOLDER = pathlib.Path(__file__).resolve().parent
PYTHON_PATH = str(REPOSITORY / "python")
DROPIN_PATH = os.pathsep.join([PYTHON_PATH, str(REPOSITORY / "python/muster/dropin")])  # with the package horovod


@pytest.fixture
def start(tmp_path):
    """start(hosts, program, **variables) -> LauncherDouble, with the processes running."""
    launchers = []

    def call(hosts, program="train.py", reports_over=True, replaces=False, are_apart=False, python=sys.executable,
             **variables):
        given = {"PYTHONPATH": PYTHON_PATH, "MUSTER_LIBRARY": os.environ["MUSTER_LIBRARY"],
                 "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        variables = clean_environment(**given | variables)
        launcher = LauncherDouble([str(FOLDER / program)], tmp_path, variables, reports_over, replaces, are_apart,
                                  python)
        launchers.append(launcher)
        launcher.start([f"h{i}" for i in range(hosts)])
        return launcher

    yield call
    for launcher in launchers:
        launcher.__exit__()


def events(launcher, kind):
    """{log: events of that kind, in their order}"""
    found = {}
    for path in sorted(launcher.folder.glob("*.log")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        found[path.stem] = [line for line in lines if line["event"] == kind]
    return {name: lines for name, lines in found.items() if lines}


def wait_for_event(launcher, kind, count, seconds=60):
    """Waits until so many events of that kind were logged by all processes together."""
    end = time.monotonic() + seconds
    while sum(map(len, events(launcher, kind).values())) < count:
        assert time.monotonic() < end, launcher.errors()
        time.sleep(0.01)
