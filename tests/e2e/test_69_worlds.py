"""Programs that silently form other worlds than hvdrun has started, and programs that do not."""

import signal

import pytest
from conftest import REPOSITORY
from console import PYTHON, Watched
from horovod_programs import LIBRARY, python_rank
from mpi_programs import compiled
from test_57_torchrun_elastic import OLD as TORCHRUN

HOSTS = ["-np", "4", "-H", "n1:2,n2:2"]
IMPORT = 180.0  # importing torch takes long on a busy machine

MEETS = """
import sys, time
import muster.numpy as hvd
hvd.init()
print("world of", hvd.size(), flush=True)
time.sleep(float(sys.argv[1]))
"""
LONG = "600"
SHORT = "8"  # agents look 5 s after the start


@pytest.fixture
def start(hvdrun, cluster, no_leftovers):
    def call(*command, hosts=HOSTS):
        return Watched(hvdrun, cluster, [*hosts, *command])
    return call


def warned(job, *texts, patience=60.0):
    """The job's warning; ends the job."""
    line = job.err.wait_for("WARNING: [^\n]*were started, but[^\n]*\n", timeout=patience)[0][0]
    job.signal(signal.SIGTERM)
    job.end()
    for text in texts:
        assert text in line, line


def test_ranks_whose_environment_is_cleared(start):
    clean = ["env", "-i", f"PYTHONPATH={REPOSITORY / 'python'}", f"MUSTER_LIBRARY={LIBRARY}"]
    job = start(*clean, PYTHON, "-B", "-c", MEETS, LONG)
    job.out.wait_for("world of 1", count=4)
    warned(job, "4 ranks were started, but they have formed 4 worlds of 1 rank", "MUSTER_SESSION_DIR", "env -i")


def test_two_halves(start):
    halves = ("export MUSTER_RENDEZVOUS=file://$MUSTER_SESSION_DIR MUSTER_SIZE=2 MUSTER_RANK=$((MUSTER_RANK % 2)); "
              'exec "$@"')
    *options, python, flag, c, text, seconds = python_rank(MEETS, LONG)
    job = start(*options, "sh", "-c", halves, "sh", python, flag, c, text, seconds)
    job.out.wait_for("world of 2", count=4)
    warned(job, "they have formed 2 worlds of 2 ranks", "MUSTER_RENDEZVOUS is set")


def test_a_torchrun_inside_each_rank(start, script):
    pytest.importorskip("torch")
    program = script("import time; print('works', flush=True); time.sleep(600)")
    job = start(*TORCHRUN, "--standalone", "--nproc_per_node=1", program,
                hosts=["-np", "2", "-H", "n1:1,n2:1"])
    job.out.wait_for("works", count=2, timeout=IMPORT)
    warned(job, "2 worlds of 1 rank", "each rank has started torchrun", "--nnodes")


def test_open_mpi_without_its_variables(start):
    program = compiled("mpi_rank", "mpicc.openmpi", "libopenmpi-dev openmpi-bin")
    job = start("env", "-i", "PATH=/usr/bin:/bin", "HOME=/tmp", program, "wait")
    warned(job, "4 worlds of 1 rank", "PMIX_RANK")


def test_mpich_without_its_descriptor(start):
    program = compiled("mpi_rank", "mpicc.mpich", "libmpich-dev mpich")
    job = start("env", "-u", "PMI_FD", program, "wait")
    warned(job, "4 worlds of 1 rank", "PMI_FD")


@pytest.mark.parametrize("mpi", ["openmpi5", "mpich5"])
def test_newer_mpis_without_their_launcher(start, mpi):
    home = REPOSITORY / "build/release/peers" / mpi
    if not (home / "bin/mpicc").exists():
        pytest.skip(f"tools/peers {mpi.replace('openmpi5', 'openmpi')} was not run here")
    program = compiled("mpi_rank", str(home / "bin/mpicc"), "", label=mpi, flags=[f"-Wl,-rpath,{home / 'lib'}"])
    job = start("env", "-i", "PATH=/usr/bin:/bin", "HOME=/tmp", program, "wait")
    warned(job, "4 worlds of 1 rank", "PMIX_RANK" if mpi == "openmpi5" else "PMI_FD")


# A library that is loaded, as by an mpi4py that was only imported, and a program that is meant to run alone: each rank's
# Python starts it as docs/guide/mpi.md says.
LOADS = """
import ctypes, subprocess, sys, time
ctypes.CDLL("libmpi.so.40")
ctypes.CDLL("libmpich.so.12", ctypes.RTLD_LOCAL)
alone = subprocess.Popen(["env", "-u", "PMI_FD", sys.argv[1], "wait"], stdout=subprocess.DEVNULL)
time.sleep(9)
alone.kill()
alone.wait()
print("done", flush=True)
"""


def test_mpis_that_are_only_loaded(hvdrun, script, no_leftovers):
    program = compiled("mpi_rank", "mpicc.mpich", "libmpich-dev mpich")
    compiled("mpi_rank", "mpicc.openmpi", "libopenmpi-dev openmpi-bin")  # skips without its library
    done = hvdrun([*HOSTS, PYTHON, script(LOADS), program])
    assert done.rc == 0 and done.stdout.count("done") == 4, done
    assert "were started, but" not in done.stderr, done


def test_a_healthy_world_of_mpichs(start):
    program = compiled("mpi_rank", "mpicc.mpich", "libmpich-dev mpich")
    job = start("sh", "-c", '"$1" wait & sleep 9; echo looked; wait', "sh", program)
    job.out.wait_for("looked", count=4)
    job.signal(signal.SIGTERM)
    assert "were started, but" not in job.end().stderr


@pytest.mark.parametrize("command", [
    ["sh", "-c", "sleep 8; echo done"],
    ["env", "-i", "sh", "-c", "sleep 8; echo done"],
    ["env", "WORLD_SIZE=1", "HOROVOD_SIZE=1", PYTHON, "-c", "import time; time.sleep(8); print('done')"],
], ids=["plain", "cleared", "unused variables"])
def test_programs_that_form_no_world(hvdrun, no_leftovers, command):
    done = hvdrun([*HOSTS, *command])
    assert done.rc == 0 and done.stdout.count("done") == 4, done
    assert "were started, but" not in done.stderr, done


def test_a_healthy_world_of_libmuster(hvdrun, no_leftovers):
    done = hvdrun([*HOSTS, *python_rank(MEETS, SHORT)])
    assert done.rc == 0 and done.stdout.count("world of 4") == 4, done
    assert "were started, but" not in done.stderr, done


GLOO = """
import time
import torch.distributed as dist
dist.init_process_group("gloo")
print("world of", dist.get_world_size(), flush=True)
time.sleep(16)
"""


def test_a_healthy_world_of_torchs(hvdrun, script, own_names, no_leftovers):
    pytest.importorskip("torch")
    done = hvdrun(["-np", "2", "-H", "n1:1,n2:1", PYTHON, script(GLOO)], timeout=IMPORT)
    assert done.rc == 0 and done.stdout.count("world of 2") == 2, done
    assert "were started, but" not in done.stderr, done


def test_torchruns_that_meet(hvdrun, script, own_names, no_leftovers):
    pytest.importorskip("torch")
    done = hvdrun(["-np", "2", "-H", "n1:1,n2:1", *TORCHRUN, "--nproc_per_node=2", script(GLOO)], timeout=IMPORT)
    assert done.rc == 0 and done.stdout.count("world of 4") == 4, done
    assert "were started, but" not in done.stderr, done
