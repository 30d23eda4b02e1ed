"""MPICH's programs without mpiexec: over PMI-1, from the ranks' own agents."""

import re
import signal

import pytest
from mpi_programs import compiled, version_of
from mpi_tests import *  # noqa: F403
from mpi_tests import TWO, pids, worlds

pytestmark = pytest.mark.compat("mpich", version_of("libmpich12") or "none")


@pytest.fixture(scope="module")
def program():
    return compiled("mpi_rank", "mpicc.mpich", "mpich")


def test_other_runtimes_serve_no_pmi(hvdrun, program):
    done = hvdrun([*TWO, "--runtime", "torch", "sh", "-c", "env | grep ^PMI; exec $0", program])
    assert done.rc == 0 and "PMI" not in done.stdout, done
    assert len(re.findall("ok ranks=1 ", done.stdout)) == 4, done


def test_mpiexec_inside_a_rank(hvdrun, program):
    done = hvdrun([*TWO, "mpiexec.hydra", "-n", "3", "-launcher", "fork", program])
    assert done.rc == 0 and len(re.findall("ok ranks=3 hosts=1 local=3", done.stdout)) == 12, done


def test_what_an_outer_launcher_has_set_misleads_nobody(hvdrun, program):
    outer = {"PMI_FD": "3", "PMI_RANK": "7", "PMI_SIZE": "64", "PMI_PORT": "localhost:1", "HYDI_CONTROL_FD": "5",
             "PMIX_RANK": "7", "PMIX_NAMESPACE": "slurm.1", "MPI_LOCALRANKID": "3", "MPI_LOCALNRANKS": "4",
             "MPIR_CVAR_CH3_INTERFACE_HOSTNAME": "nowhere", "SLURM_JOB_ID": "12", "SLURM_NODELIST": "other[1-4]",
             "SLURM_NTASKS": "64", "SLURM_PROCID": "7", "OMPI_COMM_WORLD_RANK": "7", "OMPI_COMM_WORLD_SIZE": "64"}
    done = hvdrun([*TWO, program], env=outer)
    assert done.rc == 0 and len(re.findall("ok ranks=4 hosts=2 local=2", done.stdout)) == 4, done


def test_programs_that_use_no_mpi_may_go_on_as_they_like(hvdrun):
    done = hvdrun([*TWO, "bash", "-c", 'exec {PMI_FD}>&-; echo "rank $PMI_RANK of $PMI_SIZE"'])
    assert done.rc == 0, done
    assert sorted(re.findall(r"rank \d of 4", done.stdout)) == [f"rank {rank} of 4" for rank in range(4)], done


def test_nobody_outside_the_job_comes_to_a_ranks_pmi(start, cluster, program):
    """It is one end of a pair of sockets without a name: nothing listens that could be asked."""
    job = start([program, "wait"])
    rank = pids(job, 4)[0]
    end = cluster.run("n1", "alice", ["readlink", f"/proc/{rank}/fd/99"], check=True).stdout.strip()
    inode = re.fullmatch(r"socket:\[(\d+)\]", end)[1]
    sockets = cluster.run("n1", "root", ["cat", "/proc/net/unix"], check=True).stdout.splitlines()
    own = [line.split() for line in sockets if line.split()[6] == inode]
    assert len(own) == 1 and len(own[0]) == 7 and own[0][5] == "03", own  # connected, and no path
    opened = f"import os; os.open('/proc/{rank}/fd/99', os.O_RDWR)"
    for user, error in (("bob", "Permission denied"), ("alice", "No such device or address")):
        got = cluster.run("n1", user, ["/usr/bin/python3", "-c", opened])
        assert got.returncode != 0 and error in got.stderr, got
    # As a debugger would take it: the kernel lets nobody else.
    taken = f"import ctypes, os; print(ctypes.CDLL(None).syscall(438, os.pidfd_open({rank}), 99, 0))"
    assert cluster.run("n1", "bob", ["/usr/bin/python3", "-c", taken], check=True).stdout.strip() == "-1"
    job.signal(signal.SIGTERM)
    assert job.end().rc == 143


@pytest.mark.parametrize("where", [["-np", "2", "-H", "n1:2"], TWO])
def test_names_are_published_looked_up_and_taken_back(hvdrun, where):
    done = hvdrun([*where, compiled("mpi_names", "mpicc.mpich", "mpich"), "names"])
    assert done.rc == 0, done
    ranks = int(where[1])
    assert done.stdout.count("before=0 published=1 again=0 found=1 taken=1 after=0") == ranks, done


def test_a_refused_spawn_is_one_sentence(hvdrun, program):
    done = hvdrun([*TWO, program, "spawn"])
    assert done.rc not in (0, 125, 137), done
    assert done.stderr.count("which Muster supports for Open MPI alone: start all processes with the job, as with "
                             "`hvdrun -np 1 ./manager : -np 4 ./worker`") == 1, done
    assert done.elapsed < 30, done


def test_ranks_may_go_on_without_a_spawn(hvdrun, program):
    done = hvdrun([*TWO, program, "spawn-and-go-on"])
    assert done.rc == 0 and done.stdout.count("no spawn") == 4, done


def test_a_rank_that_speaks_no_pmi_is_named(hvdrun):
    done = hvdrun(["-np", "2", "-H", "n1:2", "bash", "-c", 'echo "hello there" >&$PMI_FD; read -u $PMI_FD line; true'])
    assert done.rc == 0 and "PMI of rank" in done.stderr and "'hello there' is not a PMI-1 command" in done.stderr, done
