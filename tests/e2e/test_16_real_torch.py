"""torch 2.x, unmodified, in both younger dialects of its TCPStore. Installed by `tools/peers torch`; skipped without it."""

import re

import pytest
from conftest import BIN_DIR, REPOSITORY
from torch_programs import FAILS_ONCE, STORE, SUM

TRAINING = 240.0
EVERY_CALL = (REPOSITORY / "tests/gpu/store.py").read_text()  # what tests/gpu/run does on a machine with a GPU


@pytest.fixture(params=[pytest.param("2.1.2", marks=pytest.mark.compat("torch-2.1", "2.1.2")),
                        pytest.param("2.11.0", marks=pytest.mark.compat("torch-2.2", "2.11.0"))])
def python(request):
    path = BIN_DIR.parent / f"peers/torch-{request.param}/bin/python"
    if not path.exists():
        pytest.skip(f"torch {request.param} is not installed: tools/peers torch")
    return path


@pytest.fixture
def torchrun(hvdrun, cluster, python, no_leftovers):
    """Two ranks a host."""
    scripts = [cluster.path(host, "/home/alice/train.py") for host in cluster.hosts]

    def run(hosts, program, *options, arguments=()):
        for script in scripts:
            script.write_text(program)
        return hvdrun([], argv=["muster", "torchrun", "-H", hosts, "--nproc-per-node=2", *options, "/home/alice/train.py",
                                 *arguments],
                      env={"PYTHON_EXEC": str(python)}, timeout=TRAINING)

    yield run
    for script in scripts:
        script.unlink(missing_ok=True)


def test_ranks_of_four_hosts_sum(torchrun):
    result = torchrun("n1,n2,n3,n4", SUM)
    assert result.rc == 0 and result.stdout.count("sum 36 of 8") == 8, result


def test_store_used_directly(torchrun):
    result = torchrun("n1,n2,n3,n4", STORE)
    assert result.rc == 0 and result.stdout.count("done") == 8, result


def test_every_call_of_the_store(torchrun):
    result = torchrun("n1,n2", EVERY_CALL)
    assert result.rc == 0 and result.stdout.count("right: rank ") == 4, result


def test_a_killed_rank_ends_waits_in_the_store(torchrun):
    result = torchrun("n1,n2", EVERY_CALL, "--max-restarts=1", arguments=["killed"])
    assert result.rc == 0 and result.stdout.count("right: rank ") == 4, result
    assert re.search(r"^hvdrun: rank 1 on n1 .*: signal 9", result.stderr, re.M), result


def test_restart_on_a_fresh_store(torchrun):
    result = torchrun("n1,n2", FAILS_ONCE, "--max-restarts=2")
    assert result.rc == 0 and result.stdout.count("attempt 1 sum 10") == 4, result
    assert re.search(r"^hvdrun: rank 2 on n2 .*: exit code 3$", result.stderr, re.M), result


def test_rank_0_serves_its_own_store(hvdrun, python, no_leftovers):
    """env:// under plain hvdrun."""
    result = hvdrun(["-np", "4", "-H", "n1:2,n2:2", python, "-c", SUM], timeout=TRAINING)
    assert result.rc == 0 and result.stdout.count("sum 10 of 4") == 4, result
