"""Fixtures of the tests of Muster's Python: where things lie, and Python and hvdrun as other processes."""

import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from compat import (BIN_DIR, pytest_configure, pytest_runtest_makereport,  # noqa: E402,F401
                    pytest_sessionfinish)

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 300


def clean_environment(**more):
    """This process's, without what a rank or a test run has of Muster's and Python's, and with `more`."""
    mine = {name: value for name, value in os.environ.items()
            if not name.startswith(("MUSTER_", "HOROVOD_", "PYTHON"))}
    return mine | more


@pytest.fixture
def hvdrun():
    """hvdrun(words, **environment) -> subprocess.CompletedProcess with text."""
    binary = BIN_DIR / "hvdrun"
    if not binary.exists():
        pytest.fail(f"{binary} is not built; set MUSTER_BIN_DIR to the folder of the binaries", pytrace=False)

    def call(words, **environment):
        return subprocess.run([binary, *words], env=clean_environment(**environment), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    return call


@pytest.fixture
def python():
    """python(script, *arguments, path=folders, **environment) -> subprocess.CompletedProcess with text."""
    def call(script, *arguments, path=(), cwd=None, **environment):
        environment = clean_environment(PYTHONPATH=os.pathsep.join(map(str, path)), **environment)
        return subprocess.run([sys.executable, "-c", script, *arguments], env=environment, cwd=cwd,
                              timeout=PATIENCE_SECONDS, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
    return call
