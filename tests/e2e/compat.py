"""Notes what the tests of real clients found, for `muster compat`: tests carry pytest.mark.compat(client, version),
where version None is that of torch in this interpreter. Written at the end of a session in which all tests of a file ran."""

import datetime
import importlib.metadata
import json
import re
import subprocess


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
