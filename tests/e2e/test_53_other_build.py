"""A launcherd of another build is replaced by one of this build while its jobs run: the jobs do not notice.

    MUSTER_OTHER_BIN_DIR=/path/to/older/build/release/bin /usr/bin/python3 -m pytest tests/e2e/test_53_other_build.py

The other build is one from before a change that must not touch the contract. Without it these tests replace this
build by itself, so they stay runnable. The first line of their output names both builds.
"""

import os
import pathlib
import re
import signal
import subprocess

import pytest
from conftest import BIN_DIR
from launcherd_user import Launcherd

OTHER_BIN_DIR = pathlib.Path(os.environ.get("MUSTER_OTHER_BIN_DIR", BIN_DIR)).resolve()
LINES = 200
COUNTS = f"i=0; while [ $i -lt {LINES} ]; do echo line $i; i=$((i+1)); sleep 0.02; done; exit $1"
WAITS = "echo up; exec sleep 1000"


def build_of(bin_dir):
    version = subprocess.run([bin_dir / "hvdrun", "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"\((\S+)\)", version)[1]


@pytest.fixture(params=[[], ["--fanout", "2"]], ids=["star", "relays of the other build"])
def launcherd(hvdrun, cluster, no_leftovers, request):
    print(f"builds: {build_of(OTHER_BIN_DIR)} replaced by {build_of(BIN_DIR)}")
    daemon = Launcherd(hvdrun, cluster, *request.param, bin_dir=OTHER_BIN_DIR)
    yield daemon
    daemon.close()


def replace(launcherd, how):
    launcherd.watched.signal(how)
    launcherd.watched.end()
    launcherd.bin_dir = BIN_DIR
    launcherd.come_back()


def check_output(launcherd, job, ranks):
    lines = {rank: [] for rank in range(ranks)}
    for line in launcherd.asked("logs", job).splitlines():
        rank, text = re.fullmatch(r"\[(\d+)\]<stdout>:(.*)", line).groups()
        lines[int(rank)].append(text)
    assert lines == {rank: [f"line {i}" for i in range(LINES)] for rank in range(ranks)}


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_jobs_go_on_and_end_as_they_would(launcherd, how):
    ended = launcherd.submit("-np", "2", "sh", "-c", "echo early; exit 5")
    assert launcherd.muster("wait", ended).returncode == 5
    running = launcherd.submit("-np", "4", "sh", "-c", COUNTS, "sh", "0")
    failing = launcherd.submit("-np", "1", "sh", "-c", COUNTS, "sh", "9")
    stays = launcherd.submit("-np", "2", "sh", "-c", WAITS)
    waiting = launcherd.submit("-np", "8", "sh", "-c", "echo late")  # needs all slots, so it waits for the others
    launcherd.watch("logs", "-f", running).out.wait_for("line 3", count=4)
    launcherd.watch("logs", "-f", stays).out.wait_for("up", count=2)
    replace(launcherd, how)
    assert launcherd.job(running)["state"] == "JOB_STATE_RUNNING"
    assert launcherd.job(ended)["exit_code"] == 5
    assert "early" in launcherd.asked("logs", ended)
    assert launcherd.watch("wait", running).end(90).rc == 0, launcherd.asked("events", running)
    check_output(launcherd, running, 4)
    assert launcherd.watch("wait", failing).end(90).rc == 9, launcherd.asked("events", failing)
    check_output(launcherd, failing, 1)
    launcherd.asked("kill", stays)
    assert launcherd.muster("wait", stays).returncode != 0
    assert launcherd.job(stays)["state"] == "JOB_STATE_KILLED"
    assert launcherd.watch("wait", waiting).end(90).rc == 0, launcherd.asked("events", waiting)
    assert launcherd.asked("logs", waiting).count("late") == 8


def test_verbs_of_the_other_build(launcherd):
    """Users' `muster` of the older build works with the launcherd of the newer one, and the reverse."""
    job = launcherd.submit("-np", "2", "sh", "-c", WAITS)
    launcherd.watch("logs", "-f", job).out.wait_for("up", count=2)
    launcherd.bin_dir = BIN_DIR
    assert launcherd.job(job)["state"] == "JOB_STATE_RUNNING"
    assert job in launcherd.asked("jobs")
    replace(launcherd, signal.SIGTERM)
    launcherd.bin_dir = OTHER_BIN_DIR
    assert launcherd.job(job)["state"] == "JOB_STATE_RUNNING"
    launcherd.asked("kill", job)
    assert launcherd.muster("wait", job).returncode != 0
    again = launcherd.submit("-np", "2", "sh", "-c", "echo again")
    assert launcherd.muster("wait", again).returncode == 0
    assert launcherd.asked("logs", again).count("again") == 2
