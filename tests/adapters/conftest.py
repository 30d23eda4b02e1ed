"""A launcherd, and other tools' own tests, which run on it in an environment of tools/peers."""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from muster.client import Client, FailedPrecondition

ROOT = pathlib.Path(__file__).resolve().parents[2]
_SPEC = importlib.util.spec_from_file_location("daemon_conftest", ROOT / "tests/daemon/conftest.py")
daemons = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(daemons)
BIN = daemons.BIN

PEERS = ROOT / "build/release/peers"
HERE = pathlib.Path(__file__).resolve().parent


class Peer:
    """An environment of tools/peers, with a launcherd that its programs find."""

    def __init__(self, name, daemon, folder):
        self.python, self.daemon, self.folder = PEERS / name / "bin/python", daemon, folder
        self.sources = PEERS / name / "src"

    def run(self, *words, cwd=None, timeout=600, **environment):
        """Runs its Python. The home is a folder of the test."""
        variables = {"HOME": str(self.folder), "MUSTER_LAUNCHER": f"unix:{self.daemon.socket}", "MUSTER_BIN_DIR": str(BIN),
                     "PYTHONPATH": f"{BIN.parent}/python", "PATH": f"{self.python.parent}:/usr/bin:/bin", "LANG": "C.UTF-8",
                     **environment}
        return subprocess.run([self.python, *map(str, words)], cwd=cwd or self.folder, env=variables, timeout=timeout,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)

    def run_tests(self, *words, **options):
        """Runs pytest: the numbers of tests by their outcome. Fails if one of them fails."""
        done = self.run("-m", "pytest", "-q", "-rfEs", "-p", "no:cacheprovider", *words, **options)
        counts = {kind: int(count) for count, kind in re.findall(r"(\d+) (passed|failed|skipped|errors?|deselected|xfailed)",
                                                                 done.stdout.splitlines()[-1] if done.stdout else "")}
        print(done.stdout)
        assert done.returncode == 0 and not {"failed", "error", "errors"} & set(counts), done.stdout[-8000:]
        return counts


@pytest.fixture
def peer(tmp_path):
    """peer(name of tools/peers, slots=N). A machine that cannot fetch it skips the test, or fails it with
    MUSTER_REQUIRE_CLUSTER=1."""
    started = []

    def start(name, slots=8):
        done = subprocess.run([ROOT / "tools/peers", name], capture_output=True, text=True, timeout=900, check=False)
        if done.returncode:
            why = f"adapters: tools/peers {name} failed: {done.stderr[-500:]}"
            pytest.fail(why, pytrace=False) if os.environ.get("MUSTER_REQUIRE_CLUSTER") == "1" else pytest.skip(why)
        sessions = tmp_path / "launcherd"
        sessions.mkdir()
        started.append(daemons.Launcherd(None, sessions, [], ["-H", f"localhost:{slots}"], True, sessions))
        started[-1].line_with("serving")
        return Peer(name, started[-1], tmp_path)

    yield start
    for daemon in started:
        end_jobs(daemon)
        assert daemon.end() == 0


def end_jobs(daemon):
    with Client(f"unix:{daemon.socket}") as client:
        for job in client.jobs():
            try:
                client.kill(job.id, at_once=True)
            except FailedPrecondition:  # it has ended meanwhile
                pass
            client.wait(job.id)


def copied(folder, *sources):
    """Copies files and the content of folders into a new folder."""
    folder.mkdir()
    for source in sources:
        for file in [source] if source.is_file() else sorted(source.iterdir()):
            if file.is_file():
                shutil.copy(file, folder)
    return folder
