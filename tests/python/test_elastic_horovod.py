"""Ranks of Muster under the elastic driver of a real Horovod (elastic/horovod_driver.py)."""

import json
import os
import pathlib
import subprocess
import sys
import time

import pytest
from conftest import REPOSITORY, clean_environment

FOLDER = pathlib.Path(__file__).resolve().parent / "elastic"
INTERPRETER = REPOSITORY / "build/release/peers/horovod/bin/python"


@pytest.fixture
def job(tmp_path):
    """A Job that has not started."""
    if not INTERPRETER.exists():
        pytest.skip("tools/peers horovod was not run")
    return Job(tmp_path)


class Job:
    """A job of a real driver."""

    def __init__(self, folder):
        self.folder = folder
        self.process = None

    def start(self, hosts, first, **variables):
        """Starts the job with so many processes."""
        self.hosts(hosts)
        script = self.folder / "hosts.sh"
        script.write_text(f"#!/bin/sh\ncat {self.folder}/hosts\n")
        script.chmod(0o700)
        environment = clean_environment(LOGS=str(self.folder), WORKER_PATH=str(REPOSITORY / "python"),
                                        WORKER_PYTHON=sys.executable, OPENBLAS_NUM_THREADS="1",
                                        MUSTER_LIBRARY=os.environ["MUSTER_LIBRARY"], **variables)
        self.process = subprocess.Popen(
            [INTERPRETER, FOLDER / "horovod_driver.py", "1", str(first), script, FOLDER / "train.py"], env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def hosts(self, text):
        """Changes what discovery finds, at once for its next run."""
        (self.folder / "hosts.new").write_text(text)
        (self.folder / "hosts.new").rename(self.folder / "hosts")

    def events(self, kind):
        """Returns {log: events of that kind}."""
        found = {}
        for path in sorted(self.folder.glob("*.log")):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            found[path.stem] = [line for line in lines if line["event"] == kind]
        return {name: lines for name, lines in found.items() if lines}

    def wait_for_world(self, size):
        """Waits until a step was taken in a world of that size."""
        end = time.monotonic() + 60
        while not any(line["size"] == size for lines in self.events("collective").values() for line in lines):
            assert time.monotonic() < end and self.process.poll() is None, self.process.communicate()
            time.sleep(0.02)

    def codes(self):
        """Waits for the end. Returns (exit codes by worker, everything that was printed)."""
        output, _ = self.process.communicate(timeout=120)
        return json.loads(output.splitlines()[-1]), output


def sizes_of(lines):
    """The sizes of a process's worlds."""
    return [line["size"] for line in lines]


def test_a_lost_host(job):
    job.start("localhost:2\n127.0.0.1:2\n", 4, FAULT="kill localhost 7", PAUSE="0.01")
    codes, output = job.codes()
    assert codes == {"127.0.0.1[0]": 0, "127.0.0.1[1]": 0}, output
    worlds = job.events("world")
    assert [sizes_of(lines) for name, lines in worlds.items() if name.startswith("127")] == [[4, 2], [4, 2]]
    for [end] in job.events("done").values():
        assert end["step"] == len(end["sizes"]) == 40


def test_hosts_come_and_go(job):
    job.start("localhost:2\n", 2, PAUSE="0.1", STEPS="120")
    job.wait_for_world(2)
    job.hosts("localhost:2\n127.0.0.1:2\n")
    job.wait_for_world(4)
    job.hosts("localhost:2\n127.0.0.1:1\n")
    codes, output = job.codes()
    assert codes == {"localhost[0]": 0, "localhost[1]": 0, "127.0.0.1[0]": 0}, output
    assert "127.0.0.1[1] has been removed from elastic job" in output
    worlds = job.events("world")
    assert [sizes_of(lines) for name, lines in worlds.items() if name.startswith("localhost")] == [[2, 4, 3]] * 2
    assert len({tuple(end["weights"]) for [end] in job.events("done").values()}) == 1
