"""Fixtures of tests/e2e, whose modules these tests import, too. Counts come from the environment, so that a part of a
test can be run by hand: MUSTER_FAULTS=20 runs 20 rounds of each."""

import os
import pathlib
import sys

E2E = pathlib.Path(__file__).resolve().parents[1] / "e2e"
sys.path.insert(0, str(E2E))
# Executed here, because modules of tests/e2e import "conftest", which is this module.
exec(compile((E2E / "conftest.py").read_text(), str(E2E / "conftest.py"), "exec"))  # noqa: S102


def rounds(count):
    """How many rounds a test runs: `count`, or MUSTER_FAULTS."""
    return int(os.environ.get("MUSTER_FAULTS", count))
