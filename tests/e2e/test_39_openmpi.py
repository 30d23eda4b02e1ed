"""Open MPI's programs without mpirun: over PMIx, from the ranks' own agents and the helper that these carry."""

import pathlib
import re
import signal
import subprocess

import pytest
from conftest import BIN_DIR
from mpi_programs import compiled, version_of
from mpi_tests import *  # noqa: F403
from mpi_tests import TWO, pids, worlds

pytestmark = pytest.mark.compat("openmpi", version_of("libopenmpi3") or "none")
MPI4PY = ("from mpi4py import MPI; c = MPI.COMM_WORLD;"
          "print('mpi4py', c.allreduce(c.rank), c.size, len(set(c.allgather(MPI.Get_processor_name()))),"
          "MPI.Get_library_version())")


@pytest.fixture(scope="module")
def program():
    return compiled("mpi_rank", "mpicc.openmpi", "libopenmpi-dev openmpi-bin")


def stop(job):
    job.signal(signal.SIGTERM)
    assert job.end().rc == 143


def test_other_runtimes_serve_no_pmix(hvdrun):
    done = hvdrun([*TWO, "--runtime", "torch", "sh", "-c", "env | grep -E '^(PMIX|OMPI_MCA)' || echo none"])
    assert done.rc == 0 and done.stdout.count("none") == 4, done


def test_a_program_without_mpi_starts_no_helper(start, cluster):
    job = start(["sh", "-c", "echo up; exec sleep 600"])
    job.out.wait_for("up", count=4)
    assert [process for process in cluster.processes("n1") if process.comm == "muster-pmix"] == []
    stop(job)


def test_shared_memory_in_a_host_and_tcp_between_hosts(start, cluster, program):
    job = start([program, "wait"])
    own = pids(job, 4)
    for host, ranks in (("n1", (0, 1)), ("n2", (2, 3))):
        listed = cluster.run(host, "root", ["find", "/dev/shm", "-name", "*vader_segment*"], check=True).stdout.split()
        assert len(listed) == 2 and all(path.startswith("/dev/shm/muster-") for path in listed), listed
        tcp = cluster.run(host, "root", ["ss", "-tnp", "state", "established"], check=True).stdout
        # Which of them has a connection depends on how the barrier goes.
        ends = [line.split()[3] for line in tcp.splitlines() if any(f"pid={own[rank]}," in line for rank in ranks)]
        assert any(not peer.startswith("127.") for peer in ends), tcp
    stop(job)


def test_two_programs_in_turn(hvdrun, program):
    done = hvdrun([*TWO, "sh", "-c", '"$0" && "$0"', program])
    assert done.rc == 0 and worlds(done) == ["ranks=4 hosts=2 local=2"] * 8, done


def test_mpirun_inside_a_rank(hvdrun, program):
    done = hvdrun(["-np", "2", "-H", "n1:1,n2:1", "mpirun.openmpi", "--oversubscribe", "-n", "2", program])
    assert done.rc == 0 and worlds(done) == ["ranks=2 hosts=1 local=2"] * 4, done


def test_what_an_outer_launcher_has_set_misleads_nobody(hvdrun, program):
    outer = {"PMI_RANK": "7", "PMI_SIZE": "64", "PMIX_RANK": "7", "PMIX_NAMESPACE": "slurm.1", "PMIX_SERVER_URI41": "x",
             "PMIX_MCA_ptl": "usock", "SLURM_JOB_ID": "12", "SLURM_JOBID": "12", "SLURM_NODELIST": "other[1-4]",
             "SLURM_NTASKS": "64", "SLURM_PROCID": "7", "OMPI_COMM_WORLD_RANK": "7", "OMPI_COMM_WORLD_SIZE": "64",
             "OMPI_MCA_orte_launch": "1", "OMPI_MCA_ess": "env", "OMPI_MCA_schizo": "slurm", "OMPI_MCA_initial_wdir": "/x"}
    done = hvdrun([*TWO, program], env=outer)
    assert done.rc == 0 and worlds(done) == ["ranks=4 hosts=2 local=2"] * 4, done


def test_a_users_own_settings_reach_the_ranks(hvdrun, program):
    done = hvdrun([*TWO, "-x", "OMPI_MCA_btl_base_verbose=5", program], env={"OMPI_MCA_btl": "tcp,self"})
    assert done.rc == 0 and worlds(done) == ["ranks=4 hosts=2 local=2"] * 4, done
    assert "btl" in done.stderr and "vader" not in done.stderr, done


def test_data_that_no_fence_has_collected(hvdrun, program):
    done = hvdrun([*TWO, program], env={"OMPI_MCA_pmix_base_collect_data": "0"})
    assert done.rc == 0 and worlds(done) == ["ranks=4 hosts=2 local=2"] * 4, done


def test_help_texts_are_the_ranks_stderr(hvdrun, program):
    done = hvdrun(["-np", "2", "-H", "n1:2", program], env={"OMPI_MCA_pml": "nonsense"})
    assert done.rc != 0, done
    assert re.search(r"\[\d\]<stderr>:.*nonsense", done.stderr), done


def test_a_lost_helper_ends_the_job(start, cluster, program):
    job = start([program, "wait"])
    pids(job, 4)
    helper = [process for process in cluster.processes("n2") if process.comm == "muster-pmix"]
    assert len(helper) == 1, helper
    cluster.run("n2", "alice", ["kill", "-9", str(helper[0].inner_pid)], check=True)
    done = job.end()
    assert done.rc == 125 and "muster-pmix, which serves Open MPI here, was lost: was ended by signal 9" in done.stderr, done
    assert "hvdrun: n2: muster-pmix, through which its Open MPI ranks find the others, was lost" in done.stderr, done


def test_another_user_gets_nothing_at_the_jobs_port(start, cluster, program):
    job = start([program, "wait"])
    rank = pids(job, 4)[0]
    environment = cluster.run("n1", "alice", ["cat", f"/proc/{rank}/environ"], check=True).stdout
    port = re.search(r"PMIX_SERVER_URI41=[^;]*;tcp4://127\.0\.0\.1:(\d+)", environment)[1]
    listening = cluster.run("n1", "root", ["ss", "-tlnpH"], check=True).stdout
    inner = re.search(r"127\.0\.0\.1:(\d+) .*\"muster-pmix\"", listening)[1]
    assert inner != port
    for each in (port, inner):
        # What a rank says first does not matter: the connection is closed before it is read.
        got = cluster.run("n1", "bob", ["/usr/bin/python3", "-c",
                                        f"import socket; s=socket.create_connection(('127.0.0.1',{each}));"
                                        "s.settimeout(10); print(len(s.recv(100)))"])
        assert got.stdout.strip() in ("0", "") and "timed out" not in got.stderr, got
    stop(job)


def test_a_stranger_of_the_same_user_is_told_nothing(start, cluster, program):
    """It comes in, as a rank does; but libpmix asks who it is, and the job does not mind."""
    job = start([program, "wait"])
    rank = pids(job, 4)[0]
    environment = cluster.run("n1", "alice", ["cat", f"/proc/{rank}/environ"], check=True).stdout
    port = re.search(r"PMIX_SERVER_URI41=[^;]*;tcp4://127\.0\.0\.1:(\d+)", environment)[1]
    for first in (b"", b"GET / HTTP/1.0\r\n\r\n" + bytes(200)):
        ask = ("import socket,sys; s=socket.create_connection(('127.0.0.1',int(sys.argv[1])));"
               f"s.sendall({first!r}); s.shutdown(socket.SHUT_WR); s.settimeout(20); print(len(s.recv(100)))")
        got = cluster.run("n1", "alice", ["/usr/bin/python3", "-c", ask, port], timeout=40)
        assert got.stdout.strip() in ("0", "") and "timed out" not in got.stderr, got
    stop(job)


def test_a_client_of_pmix_is_told_of_the_programs(hvdrun):
    found = subprocess.run(["pkg-config", "--cflags", "--libs", "pmix"], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        pytest.skip("libpmix is not installed for compiling (Debian: libpmix-dev)")
    keys = compiled("pmix_keys", "gcc", "gcc", flags=found.stdout.split())
    done = hvdrun(["-np", "1", "-H", "n1:2,n2:2", keys, ":", "-np", "2", keys, ":", "-np", "1", keys])
    assert done.rc == 0, done
    told = dict(re.findall(r"\[(\d)\]<stdout>:appnum=(.*)", done.stdout))
    assert told == {"0": "0 app_rank=0 app_size=1 leader=0 apps=3", "1": "1 app_rank=0 app_size=2 leader=1 apps=3",
                    "2": "1 app_rank=1 app_size=2 leader=1 apps=3", "3": "2 app_rank=0 app_size=1 leader=3 apps=3"}, done


@pytest.fixture(scope="module")
def names():
    return compiled("mpi_names", "mpicc.openmpi", "libopenmpi-dev openmpi-bin")


@pytest.mark.parametrize("where", [["-np", "2", "-H", "n1:2"], TWO])
def test_names_are_published_looked_up_and_taken_back(hvdrun, names, where):
    done = hvdrun([*where, names, "names"])
    assert done.rc == 0, done
    ranks = int(where[1])
    assert done.stdout.count("before=0 published=1 again=0 found=1 taken=1 after=0") == ranks, done


@pytest.mark.parametrize("where", [["-np", "2", "-H", "n1:2"], TWO])
def test_ranks_of_one_job_accept_and_connect(hvdrun, names, where):
    done = hvdrun([*where, names, "accept"])
    assert done.rc == 0, done
    ranks = int(where[1])
    for turn in (0, 1):
        assert done.stdout.count(f"turn={turn} there={ranks // 2} sum={sum(range(ranks))}") == ranks, done


NO_SLOTS = "MPI_Comm_spawn failed: the request asks for 1 ranks, but the job's hosts have 0 free slots: start the job with more"


def test_a_failed_spawn_is_told_as_the_end(hvdrun, program):
    """Open MPI's other ranks wait in MPI_Comm_spawn for ever, whatever rank 0 does."""
    done = hvdrun([*TWO, program, "spawn"])
    assert done.rc == 1 and f"hvdrun: n1: rank 0: {NO_SLOTS}" in done.stderr, done
    assert re.search(r"rank 0 on n1 \(pid .*\): called MPI_Abort\(\d+\) after its MPI_Comm_spawn had failed\n", done.stderr), done


def test_one_rank_may_go_on_without_its_spawn(hvdrun, program):
    done = hvdrun(["-np", "1", "-H", "n1", program, "spawn-and-go-on"])
    assert done.rc == 0 and "no spawn" in done.stdout and NO_SLOTS in done.stderr, done


@pytest.fixture(scope="module")
def spawner():
    return compiled("mpi_spawn", "mpicc.openmpi", "libopenmpi-dev openmpi-bin")


def said(done):
    """(number in the job, parent or child, rank, ranks there, host) of each line."""
    found = re.findall(r"\[(\d+)\]<stdout>:(\w+) rank=(\d+) of=\d+ there=(\d+) all=\d+ sum=\d+ host=(\S+)", done.stdout)
    return sorted((int(number), who, int(rank), int(there), host) for number, who, rank, there, host in found)


@pytest.mark.parametrize("where, mode, expected", [
    (["-np", "1", "-H", "n1:3"], ["all", "2"], [(0, "parent", 0, 2, "n1"), (1, "child", 0, 1, "n1"), (2, "child", 1, 1, "n1")]),
    (["-np", "2", "-N", "1", "-H", "n1:2,n2:2", "--map-by", "node"], ["all", "2"],
     [(0, "parent", 0, 2, "n1"), (1, "parent", 1, 2, "n2"), (2, "child", 0, 2, "n1"), (3, "child", 1, 2, "n2")]),
    (["-np", "2", "-H", "n1:2,n2:2", "--map-by", "node"], ["host", "1", "n2"],
     [(0, "parent", 0, 1, "n1"), (1, "parent", 1, 1, "n2"), (2, "child", 0, 2, "n2")]),
    (["-np", "2", "-H", "n1:2,n2:2", "--map-by", "node"], ["self", "1"], [(0, "parent", 0, 1, "n1"), (2, "child", 0, 1, "n1")]),
    (["-np", "2", "-H", "n1:3,n2:3", "--map-by", "node"], ["multiple", "2"],
     [(0, "parent", 0, 3, "n1"), (1, "parent", 1, 3, "n2"), (2, "child", 0, 2, "n1"), (3, "child", 1, 2, "n1"), (4, "child", 2, 2, "n2")]),
    (["-np", "2", "-H", "n1:1,n2:1", "--oversubscribe"], ["all", "3"],
     [(0, "parent", 0, 3, "n1"), (1, "parent", 1, 3, "n2"), (2, "child", 0, 2, "n1"), (3, "child", 1, 2, "n1"), (4, "child", 2, 2, "n2")]),
])
def test_spawned_ranks_fill_the_jobs_hosts(hvdrun, spawner, where, mode, expected):
    done = hvdrun([*where, spawner, *mode])
    assert done.rc == 0 and said(done) == expected, done


def test_spawned_ranks_spawn_more(hvdrun, spawner):
    done = hvdrun(["-np", "2", "-H", "n1:2,n2:2", "--map-by", "node", spawner, "deep", "1"])
    assert done.rc == 0, done
    assert said(done) == [(0, "parent", 0, 1, "n1"), (1, "parent", 1, 1, "n2"), (2, "child", 0, 2, "n1"),
                          (2, "parent", 0, 1, "n1"), (3, "child", 0, 1, "n2")], done


def test_spawned_ranks_have_the_directory_of_the_info(hvdrun, spawner):
    done = hvdrun(["-np", "1", "-H", "n1:2", spawner, "wdir", "1", "/var"])
    assert done.rc == 0 and re.search(r"\[1\]<stdout>:child .* dir=/var\n", done.stdout), done
    assert "universe=2\n" in done.stdout, done


@pytest.mark.parametrize("mode, code, end", [("fail", 7, "exit code 7"), ("abort", 9, r"called MPI_Abort\(9\)")])
def test_a_spawned_rank_that_fails_ends_the_job(hvdrun, spawner, mode, code, end):
    done = hvdrun(["-np", "2", "-H", "n1:2,n2:2", "--map-by", "node", spawner, mode, "2"])
    assert done.rc == code and re.search(rf"hvdrun: rank 3 on n2 \(pid .*\): {end}\n", done.stderr), done


@pytest.mark.parametrize("mode, reason", [
    (["missing", "1"], "n1: cannot run '/no/such/program': no such file"),
    (["too-many", "2"], "the request asks for 2 ranks, but the job's hosts have 1 free slots"),
])
def test_a_spawn_that_cannot_be_is_an_error_of_the_call(hvdrun, spawner, mode, reason):
    done = hvdrun(["-np", "1", "-H", "n1:2", spawner, *mode])
    assert done.rc == 0 and f"refused kind={mode[0]} is_spawn=1" in done.stdout, done
    assert f"MPI_Comm_spawn failed: {reason}" in done.stderr, done


def test_without_libpmix_the_package_is_named(hvdrun, program, cluster):
    library = pathlib.Path("/usr/lib/x86_64-linux-gnu/libpmix.so.2").resolve()
    cluster.run("n2", "root", ["mount", "--bind", "/dev/null", str(library)], check=True)
    try:
        done = hvdrun([*TWO, program])
        assert done.rc not in (0, 137), done
        assert re.search(r"hvdrun: n2: .*libpmix\.so\.2.*libpmix2", done.stderr), done
        other = hvdrun([*TWO, "hostname"])
        assert other.rc == 0 and "pmix" not in other.stderr, other
    finally:
        cluster.run("n2", "root", ["umount", str(library)], check=True)


@pytest.fixture(scope="module")
def window_program():
    return compiled("mpi_window", "mpicc.openmpi", "libopenmpi-dev openmpi-bin")


def test_windows_between_hosts(hvdrun, window_program):
    """As docs/guide/mpi.md says: over TCP, unless the program asks for MPI_THREAD_MULTIPLE."""
    for level in ("single", "serialized"):
        done = hvdrun([*TWO, window_program, level])
        assert done.rc == 0 and done.stdout.count("window ok") == 4, done
    refused = hvdrun([*TWO, window_program, "multiple"])
    assert refused.rc != 0 and "MPI_THREAD_MULTIPLE" in refused.stderr, refused
    on_one_host = hvdrun(["-np", "2", "-H", "n1:2", window_program, "multiple"])
    assert on_one_host.rc == 0 and on_one_host.stdout.count("window ok") == 2, on_one_host


@pytest.mark.parametrize("peer, library", [
    pytest.param("openmpi", "Open MPI v4", marks=pytest.mark.compat("mpi4py", "4.1.2")),
    pytest.param("openmpi5", "Open MPI v5", marks=pytest.mark.compat("openmpi-5", "5.0.11")),
])
def test_mpi4py(hvdrun, peer, library):
    python = BIN_DIR.parent / f"peers/{peer}/bin/python"
    if not python.exists():
        pytest.skip("mpi4py is not installed: tools/peers openmpi")
    done = hvdrun([*TWO, python, "-c", MPI4PY])
    assert done.rc == 0 and done.stdout.count(f"mpi4py 6 4 2 {library}") == 4, done
