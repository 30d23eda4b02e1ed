"""Notes what the tests of real clients found, for `muster compat`: tests carry pytest.mark.compat(client, version),
where version None is that of torch in this interpreter. Written at the end of a session in which all tests of a file ran.
A conftest.py that imports the hooks at the end notes what its tests find."""

import datetime
import importlib.metadata
import json
import os
import pathlib
import re
import subprocess

import pytest

BIN_DIR = pathlib.Path(os.environ.get("MUSTER_BIN_DIR",
                                      pathlib.Path(__file__).resolve().parents[2] / "build/release/bin")).resolve()


class Notes:
    """What happened to each client's tests: {client: (version, {test: outcome})}."""

    def __init__(self):
        self._clients = {}

    def add(self, item, report):
        mark = item.get_closest_marker("compat")
        if mark is None or (report.when != "call" and report.passed):
            return
        client, version = mark.args
        _, outcomes = self._clients.setdefault(client, (version, {}))
        if outcomes.get(item.nodeid) != "failed":
            outcomes[item.nodeid] = report.outcome

    def write(self, bin_dir):
        """One file a client; a client of which a test was skipped was not run, and keeps what an earlier run found."""
        if not self._clients:
            return
        told = subprocess.run([bin_dir / "hvdrun", "--version"], capture_output=True, text=True, check=True).stdout
        build = re.search(r"\((\S+)\)", told)[1]
        folder = bin_dir.parent / "share/muster/compat"
        for client, (version, outcomes) in self._clients.items():
            if "skipped" in outcomes.values():
                continue
            result = {"client": client, "result": "failed" if "failed" in outcomes.values() else "passed",
                      "version": version or importlib.metadata.version("torch"), "tests": len(outcomes),
                      "time": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ"), "build": build}
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{client}.json").write_text(json.dumps(result) + "\n")


NOTES = pytest.StashKey[Notes]()


def pytest_configure(config):
    config.addinivalue_line("markers", "compat(client, version): drives a real client; the outcome is noted")
    config.stash[NOTES] = Notes()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    item.config.stash[NOTES].add(item, report)


def pytest_sessionfinish(session):
    is_selection = session.config.option.keyword or any("::" in argument for argument in session.config.args)
    if not is_selection and not session.shouldstop and not session.shouldfail and BIN_DIR.exists():
        session.config.stash[NOTES].write(BIN_DIR)
