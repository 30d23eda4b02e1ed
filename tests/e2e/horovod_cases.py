"""Runs the cases of horovod 0.28.1's elastic integration tests with hvdrun in horovodrun's place. unittest calls them on a
test host; test_60_horovod_cases.py says how. The checkout of Horovod is not part of this repository.

Their cases patch constants of horovodrun's driver and call it as a function. Here the patched time limit becomes a flag,
and the end of hvdrun becomes the exception that they expect. The script of the training is theirs, unchanged.

The hosts share the home, where the log and the script are.

  MUSTER_HOROVOD_CHECKOUT   horovod at v0.28.1
  MUSTER_HOROVOD_SCRIPT     the script of test/integration/data
  MUSTER_HOROVOD_LAUNCHER   hvdrun, or horovodrun, whose word `python` is the first in PATH
"""

import os
import re
import subprocess
import sys
import unittest

CHECKOUT = os.environ["MUSTER_HOROVOD_CHECKOUT"]
SCRIPT = f"{CHECKOUT}/test/integration/data/{os.environ['MUSTER_HOROVOD_SCRIPT']}"
LIMIT = 240
NAMES = {"localhost": "n1", "127.0.0.1": "n2"}  # for Muster two names of a machine are one host
FAILED = "Horovod detected that one or more processes exited with non-zero status"  # horovodrun's words
OURS = r"failed; exit code \d+ is that of rank|failed; rank \d+"
sys.path[:0] = [f"{CHECKOUT}/test/integration", f"{CHECKOUT}/test/utils"]

import elastic_common  # noqa: E402
from horovod.runner.elastic import driver  # noqa: E402


class NoConfig:
    """horovodrun's own reading of its flags, which hvdrun does by itself."""

    @staticmethod
    def set_env_from_args(env, args):
        pass


def launch(args):
    """RuntimeError with what the launcher has written, if it fails. The words are those that the case has put in argv."""
    words = [os.environ["MUSTER_HOROVOD_LAUNCHER"], "--elastic-timeout", str(driver.ELASTIC_TIMEOUT_SECS)]
    if words[0].endswith("horovodrun"):
        words += ["--network-interfaces", "eth0"]
    found = subprocess.run([*words, *sys.argv[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           timeout=LIMIT)
    print(re.sub(r".*horovod/common/.*: [DI] .*\n", "", found.stdout))
    if found.returncode != 0:
        raise RuntimeError(f"{FAILED}: {found.stdout}" if re.search(OURS, found.stdout) else found.stdout)


def replaced(value, names):
    """The value with other names of hosts in all its texts."""
    if isinstance(value, str):
        return re.sub("|".join(map(re.escape, names)), lambda found: names[found[0]], value)
    if isinstance(value, dict):
        return {key: replaced(item, names) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(replaced(item, names) for item in value)
    return value


class Cases(elastic_common.BaseElasticTests, unittest.TestCase):
    def __init__(self, *args, **kwargs):
        super().__init__(SCRIPT, *args, **kwargs)

    def _run(self, *args, np=None, **kwargs):
        """One case gives the number of processes by a name that the function no longer has. The two names of one machine
        become two hosts."""
        if np is not None:
            kwargs["num_proc"] = np
        args, kwargs = replaced((args, kwargs), NAMES)
        return replaced(super()._run(*args, **kwargs), {host: name for name, host in NAMES.items()})


elastic_common.parse_args = lambda: None
elastic_common.config_parser = NoConfig
elastic_common._run_elastic = launch
driver.ELASTIC_TIMEOUT_SECS = 60

if __name__ == "__main__":
    unittest.main()
