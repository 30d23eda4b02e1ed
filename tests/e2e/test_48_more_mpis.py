"""Programs of MPIs that Debian has not, over PMI-1: Intel MPI and the newest MPICH, both from PyPI by tools/peers."""

import pathlib

import pytest
from conftest import REPOSITORY
from mpi_programs import compiled
from mpi_tests import *  # noqa: F403

PEERS = REPOSITORY / "build/release/peers"
COMPILERS = {"intelmpi": "mpigcc", "mpich5": "mpicc"}


@pytest.fixture(scope="module", params=[
    pytest.param("intelmpi", marks=pytest.mark.compat("intel-mpi", "2021.16.1")),
    pytest.param("mpich5", marks=pytest.mark.compat("mpich-5", "5.0.2")),
])
def program(request):
    home = PEERS / request.param
    compiler = home / "bin" / COMPILERS[request.param]
    if not compiler.exists():
        pytest.skip(f"tools/peers {request.param} was not run here")
    return compiled("mpi_rank", str(compiler), "", label=request.param, flags=[f"-Wl,-rpath,{home / 'lib'}"],
                    env={"I_MPI_ROOT": str(home)})


def test_mpi4py(hvdrun, program):
    home = PEERS / pathlib.Path(program).suffix[1:]
    script = "from mpi4py import MPI; c = MPI.COMM_WORLD; print('sum', c.allreduce(c.rank), 'of', c.size, flush=True)"
    done = hvdrun(["-np", "4", "-H", "n1:2,n2:2", str(home / "bin/python"), "-c", script])
    assert done.rc == 0 and done.stdout.count("sum 6 of 4") == 4, done
