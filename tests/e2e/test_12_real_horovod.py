"""The real horovod 0.28.1 (Gloo), unmodified, under hvdrun: over hosts, twice in one process, with process sets, and with
a rank that dies. Installed by `tools/peers horovod`; skipped without it."""

import re

import pytest
from conftest import BIN_DIR

PYTHON = BIN_DIR.parent / "peers/horovod/bin/python"
TRAINING = 240.0

pytestmark = pytest.mark.compat("horovod-gloo", "0.28.1")

ROUNDS = r"""
import torch
import horovod.torch as hvd
for turn in range(2):  # the second init meets in a store that the first has used
    hvd.init()
    total = hvd.allreduce(torch.ones(3) * (hvd.rank() + 1), op=hvd.Sum, name=f"sum{turn}")
    names = hvd.allgather_object((hvd.rank(), hvd.local_rank(), hvd.cross_rank()), name=f"names{turn}")
    print("turn", turn, "sum", int(total[0]), "of", hvd.size(), hvd.local_size(), hvd.cross_size(), sorted(names)[-1],
          flush=True)
    hvd.shutdown()
"""

SETS = r"""
import torch
import horovod.torch as hvd
even, odd = hvd.ProcessSet([0, 2]), hvd.ProcessSet([1, 3])
hvd.init(process_sets=[even, odd])
mine = even if hvd.rank() % 2 == 0 else odd
total = hvd.allreduce(torch.ones(1) * (hvd.rank() + 1), op=hvd.Sum, process_set=mine)
print("set sum", int(total), flush=True)
hvd.shutdown()
"""

DIES = r"""
import os, signal, torch
import horovod.torch as hvd
hvd.init()
hvd.allreduce(torch.ones(1))
if hvd.rank() == 2:
    os.kill(os.getpid(), signal.SIGKILL)
while True:
    hvd.allreduce(torch.ones(1))
"""


@pytest.fixture(autouse=True)
def horovod():
    if not PYTHON.exists():
        pytest.skip("horovod is not installed: tools/peers horovod")


def test_ranks_of_four_hosts_reduce_twice(hvdrun, own_names, no_leftovers):
    result = hvdrun(["-np", "8", "-H", "n1:2,n2:2,n3:2,n4:2", PYTHON, "-c", ROUNDS], timeout=TRAINING)
    assert result.rc == 0, result
    for turn in range(2):
        said = re.findall(rf"^\[\d\]<stdout>:turn {turn} (.*)$", result.stdout, re.M)
        assert said == ["sum 36 of 8 2 4 (7, 1, 3)"] * 8, result


def test_hosts_of_different_size(hvdrun, own_names, no_leftovers):
    result = hvdrun(["-np", "5", "-H", "n1:3,n2:1,n3:2", PYTHON, "-c", ROUNDS], timeout=TRAINING)
    assert result.rc == 0, result
    assert result.stdout.count("sum 15 of 5") == 10, result


def test_one_host(hvdrun, no_leftovers):
    result = hvdrun(["-np", "2", PYTHON, "-c", ROUNDS], timeout=TRAINING)
    assert result.rc == 0 and result.stdout.count("sum 3 of 2") == 4, result


def test_process_sets(hvdrun, own_names, no_leftovers):
    result = hvdrun(["-np", "4", "-H", "n1:2,n2:2", PYTHON, "-c", SETS], timeout=TRAINING)
    assert result.rc == 0, result
    assert sorted(re.findall(r"set sum (\d+)", result.stdout)) == ["4", "4", "6", "6"], result


def test_rank_that_dies_is_named(hvdrun, own_names, no_leftovers):
    result = hvdrun(["-np", "4", "-H", "n1:2,n2:2", PYTHON, "-c", DIES], timeout=TRAINING)
    assert result.rc == 137, result
    assert re.search(r"^hvdrun: rank 2 on n2 \(pid \d+\): signal 9 \(Killed\)$", result.stderr, re.M), result


def test_host_name_that_is_loopback_is_explained(hvdrun, no_leftovers):
    """As Debian's installer leaves /etc/hosts: horovod cannot run there, by any launcher; the reason is told."""
    result = hvdrun(["-np", "2", "-H", "n1,n2", PYTHON, "-c", ROUNDS], timeout=TRAINING)
    assert result.rc == 134, result
    assert re.search(r"^hvdrun: n[12]: Horovod listens at a loopback address here, .* /etc/hosts", result.stderr, re.M), result
