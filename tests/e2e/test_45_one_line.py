"""One line for all programs: in an allocation, `hvdrun PROGRAM` runs a Horovod script, a DDP script and programs of two
MPIs one after the other, no option changed. The allocation is a PBS node file, which is what hvdrun reads of PBS."""

import pytest
from conftest import REPOSITORY
from horovod_programs import LIBRARY
from mpi_programs import compiled
from torch_programs import SUM

HOROVOD = """
import torch, horovod.torch as hvd
hvd.init()
total = hvd.allreduce(torch.tensor([float(hvd.rank() + 1)]), op=hvd.Sum)
print("horovod", float(total), "of", hvd.size(), flush=True)
"""


@pytest.fixture
def run(hvdrun, cluster, no_leftovers):
    nodes = cluster.path("head", "/home/alice/nodes")
    nodes.write_text("n1\nn1\nn2\nn2\n")

    def call(*program):
        return hvdrun([*program], env={"PBS_NODEFILE": "/home/alice/nodes", "PYTHONPATH": str(REPOSITORY / "python"),
                                       "MUSTER_LIBRARY": str(LIBRARY)}, timeout=120)

    yield call
    nodes.unlink()


def test_the_same_line_for_all(run):
    mpi = [compiled("mpi_rank", "mpicc.mpich", "mpich"),
           compiled("mpi_rank", "mpicc.openmpi", "libopenmpi-dev openmpi-bin")]
    done = run("/usr/bin/python3", "-B", "-c", HOROVOD)
    assert done.rc == 0 and done.stdout.count("horovod 10.0 of 4") == 4, done
    done = run("/usr/bin/python3", "-B", "-c", SUM)
    assert done.rc == 0 and done.stdout.count("sum 10 of 4") == 4, done
    for program in mpi:
        done = run(program)
        assert done.rc == 0 and done.stdout.count("ok ranks=4 hosts=2 local=2") == 4, done
