"""Horovod's own elastic integration tests with hvdrun in place of horovodrun, and with the real horovod or libmuster's
drop-in on the ranks. They need a checkout of horovod at v0.28.1, which is not part of this repository:

    git clone -b v0.28.1 https://github.com/horovod/horovod /tmp/horovod
    MUSTER_HOROVOD_CHECKOUT=/tmp/horovod /usr/bin/python3 -m pytest -rA tests/e2e/test_60_horovod_cases.py

Horovod's tests import the package mock. MUSTER_MOCK_FOLDER is a folder that has it (pip install --target FOLDER mock). It
must be outside /tmp, because each test host has a /tmp of its own.

The cases call one machine localhost and 127.0.0.1, and treat it as two hosts. Here n1 and n2 take their places.
MUSTER_TEST_HOROVODRUN=1 runs the same cases with horovodrun, which asks for the hosts once a second. The cases with one
name below are those that Horovod skips itself for its torch or TensorFlow ranks, because they fail there."""

import os
import pathlib
import shutil

import pytest
from conftest import BIN_DIR
from elastic_site import PEER

CHECKOUT = os.environ.get("MUSTER_HOROVOD_CHECKOUT", "")
DRIVER = pathlib.Path(__file__).with_name("horovod_cases.py")
TENSORFLOW = BIN_DIR.parent / "peers/tensorflow/bin"
CASES = ["hosts_added_and_removed", "single_rank_failure", "fault_tolerance_without_scaling", "all_ranks_failure",
         "all_hosts_blacklisted", "min_hosts_timeout", "reset_limit",
         "resurrecting_blacklisted_hosts_exponential_backoff"]
# The other two, of Keras and TensorFlow, are written for TensorFlow 1, which does not exist for this Python.
SCRIPTS = {"torch": "elastic_torch_main.py", "tensorflow2": "elastic_tensorflow2_main.py"}
PYTHONS = {"drop-in": pathlib.Path("/usr/bin/python3"), "horovod": PEER / "python", "drop-in-tensorflow": TENSORFLOW / "python"}
RUNS = [("torch", "drop-in"), ("torch", "horovod"), ("tensorflow2", "drop-in-tensorflow")]
LAUNCHER = PEER / "horovodrun" if os.environ.get("MUSTER_TEST_HOROVODRUN") == "1" else BIN_DIR / "hvdrun"


@pytest.mark.parametrize("script,library", RUNS, ids=["-".join(run) for run in RUNS])
@pytest.mark.parametrize("case", CASES)
def test_horovods_own(make_cluster, hvdrun, no_leftovers, case, script, library):
    if not CHECKOUT:
        pytest.skip("MUSTER_HOROVOD_CHECKOUT is not set")
    for needed in (PEER / "python", PYTHONS[library]):
        if not needed.exists():
            pytest.skip(f"{needed} is missing: tools/peers")
    cluster = make_cluster(2, home="shared", same_nics=True)
    use_addresses(cluster)
    exposed = copy_in(cluster)
    environment = {"MUSTER_HOROVOD_CHECKOUT": exposed, "MUSTER_HOROVOD_SCRIPT": SCRIPTS[script],
                   "MUSTER_HOROVOD_LAUNCHER": str(LAUNCHER), "PYTHONPATH": os.environ.get("MUSTER_MOCK_FOLDER", ""),
                   "PATH": f"{exposed}/bin:/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": f"{exposed}/tmp"}
    name_python(cluster, exposed, PYTHONS[library])
    command = [str(PEER / "python"), str(DRIVER), f"Cases.test_{case}"]
    result = cluster.run("head", "alice", command, env=environment, timeout=600)
    assert result.returncode == 0, f"{result.stdout[-4000:]}\n--- stderr\n{result.stderr[-1000:]}"


def use_addresses(cluster):
    """The hosts' own names are addresses on the network, which the real horovod needs."""
    for host in cluster.nodes:
        file = cluster.path(host, "/etc/hosts")
        file.write_text("".join(line for line in file.read_text().splitlines(True) if not line.startswith("127.0.1.1")))


def copy_in(cluster):
    """The tests of the checkout, where all hosts read them. Its path there."""
    folder = cluster.path("head", "/home/alice/horovod/test")
    if not folder.exists():
        cluster.run("head", "alice", ["mkdir", "-p", "horovod/tmp", "horovod/bin"], check=True)
        shutil.copytree(pathlib.Path(CHECKOUT, "test"), folder)
    return "/home/alice/horovod"


def name_python(cluster, folder, python):
    """The cases call `python`."""
    link = cluster.path("head", f"{folder}/bin/python")
    link.write_text(f"#!/bin/sh\nexec {python} \"$@\"\n")
    link.chmod(0o755)
