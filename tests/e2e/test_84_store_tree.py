"""The tree of a job's stores (docs/adr/0068): on four hosts, with a fan-out small enough that hosts lie below another
host than rank 0's. What every protocol needs of the stores, and what happens if a host on the way is lost or lies."""

import os
import re
import signal
import time

import pytest
from cluster import testing
from conftest import BIN_DIR
from console import PATIENCE, PYTHON, Watched
from mpi_programs import compiled
from test_03_strays import agent_and_warden
from test_10_horovod import ASK, HOLD, WORKER
from torch_programs import STORE, SUM

FOUR = ["-np", "8", "-H", "n1:2,n2:2,n3:2,n4:2"]
CHAIN = {"MUSTER_STORE_FANOUT": "1"}  # n1 <- n2 <- n3 <- n4
TREES = [CHAIN, {"MUSTER_STORE_FANOUT": "2"}]  # n1 <- n2, n3; n2 <- n4
PERF = str(BIN_DIR / "muster_perf")
TORCH = {"PYTHON_EXEC": PYTHON}
TRAINING = 240.0  # importing torch takes long on a busy machine
LEASE = 15.0  # hvdrun's


@pytest.fixture(autouse=True)
def nothing_left(no_leftovers):
    pass


def has_torch(clusters):
    probe = clusters.get(4).run("n1", "alice", [PYTHON, "-c", "import torch.distributed"], timeout=TRAINING)
    return probe.returncode == 0


def listening(cluster, host):
    """The ports at which alice's processes on the host listen."""
    lines = cluster.run(host, "root", ["ss", "-Hltne"], check=True).stdout.splitlines()
    alice = f"uid:{cluster.uid('alice')}"
    return {line.split()[3].rsplit(":", 1)[1] for line in lines if alice in line}


def open_ports(cluster, host):
    """Those at which other hosts reach alice's processes."""
    lines = cluster.run(host, "root", ["ss", "-Hltne"], check=True).stdout.splitlines()
    mine = [line.split()[3] for line in lines if f"uid:{cluster.uid('alice')}" in line]
    return {address.rsplit(":", 1)[1] for address in mine if not address.startswith("127.")}


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("name, compiler, package", [("mpich", "mpicc.mpich", "mpich"),
                                                     ("openmpi", "mpicc.openmpi", "libopenmpi-dev openmpi-bin")])
def test_fences_of_mpi(hvdrun, tree, name, compiler, package):
    program = compiled("mpi_rank", compiler, package)
    done = hvdrun([*FOUR, program], env=tree)
    assert done.rc == 0, done
    assert re.findall(r"ok (ranks=\d+ hosts=\d+ local=\d+)", done.stdout) == ["ranks=8 hosts=4 local=2"] * 8, done


@pytest.mark.parametrize("tree", TREES)
def test_horovods_workers(hvdrun, tree):
    done = hvdrun([*FOUR, PYTHON, "-c", WORKER, "3"], env=tree, timeout=150)
    assert done.rc == 0, done
    assert len(re.findall(r"^\[\d+\]<stdout>:done \d+$", done.stdout, re.M)) == 8, done


@pytest.mark.parametrize("tree", TREES)
def test_a_world_of_libmuster(hvdrun, tree):
    done = hvdrun([*FOUR, "--quiet", PERF, "allreduce", "-b", "1K", "-e", "64K", "-f", "8", "-n", "3", "--json"], env=tree)
    assert done.rc == 0 and '"wrong":0' in done.stdout and '"hosts":4' in done.stdout, done


def test_a_wrong_fanout_is_refused(hvdrun):
    done = hvdrun([*FOUR, "true"], env={"MUSTER_STORE_FANOUT": "none"})
    assert done.rc == 2 and "MUSTER_STORE_FANOUT=none: not a number from 1 to" in done.stderr, done


# ---- torch's TCPStore

@pytest.mark.parametrize("tree", TREES)
def test_torchs_store_through_each_host(hvdrun, clusters, tree):
    if not has_torch(clusters):
        pytest.skip("python3-torch is needed")
    done = hvdrun([], argv=["muster", "torchrun", "-H", "n1,n2,n3,n4", "--nproc-per-node", "2", "--no-python", PYTHON, "-c",
                            STORE], env=TORCH | tree, timeout=TRAINING)
    assert done.rc == 0 and len(re.findall("store of torch .* done", done.stdout)) == 8, done
    done = hvdrun([], argv=["muster", "torchrun", "-H", "n1,n2,n3,n4", "--nproc-per-node", "2", "--no-python", PYTHON, "-c",
                            SUM], env=TORCH | tree, timeout=TRAINING)
    assert done.rc == 0 and len(re.findall(r"sum 36 of 8 ", done.stdout)) == 8, done


SHOW = 'echo "addr $RANK $MASTER_ADDR ${MUSTER_MASTER_ADDR:-none} arg $1"'


@pytest.mark.parametrize("chosen, expected", [({}, "127.0.0.1"), ({"MUSTER_TORCH_STORE": "rank0"}, None)])
def test_where_ranks_find_the_store(hvdrun, cluster, chosen, expected):
    done = hvdrun([], argv=["muster", "torchrun", "-H", "n1,n2,n3", "--nproc-per-node", "1", "--no-python", "sh", "-c", SHOW,
                            "sh", "{master_addr}"], env=TORCH | CHAIN | chosen)
    assert done.rc == 0, done
    found = {rank: rest for rank, *rest in re.findall(r"addr (\d) (\S+) (\S+) arg (\S+)", done.stdout)}
    first = cluster.address("n1")
    assert found["0"][:2] == [first, "none"], done
    for rank in "12":
        assert found[rank][:2] == ([first, "none"] if expected is None else [expected, first]), done


# ---- faults

def test_a_lost_host_on_the_way_ends_the_job(hvdrun, cluster):
    """The agent of n2 carries the fences of n3 and n4."""
    program = compiled("mpi_rank", "mpicc.mpich", "mpich")
    job = Watched(hvdrun, cluster, [*FOUR, program, "wait"], env=CHAIN)
    job.out.wait_for(r"pid \d+", 8)
    os.kill(agent_and_warden(cluster, "n2", "alice")[0].pid, signal.SIGKILL)
    killed = time.monotonic()
    done = job.end()
    assert done.rc == 125 and re.search(r"^hvdrun: n2: the agent there ended .*: was it killed\?$", done.stderr, re.M), done
    assert time.monotonic() - killed < LEASE, done


def test_a_cut_between_two_hosts_only_delays(hvdrun, cluster):
    """Nothing passes between n3 and the agent of n2 for a while, shorter than the lease. n2 and n3 see the launcher."""
    before = open_ports(cluster, "n2")
    job = Watched(hvdrun, cluster, ["-np", "4", "-H", "n1:1,n2:1,n3:1,n4:1", PYTHON, "-c", WORKER, "150"], env=CHAIN)
    assert testing.eventually(lambda: open_ports(cluster, "n2") - before, PATIENCE)
    cluster.drop("n2", ports=sorted(open_ports(cluster, "n2") - before))
    # Not to wait for something: so long does nothing pass, and what is under way is lost.
    time.sleep(2)
    assert not job.ended()
    cluster.heal("n2")
    done = job.end()
    assert done.rc == 0 and len(re.findall("done", done.stdout)) == 4, done


def test_nobody_else_gets_anything(hvdrun, cluster):
    """bob asks at every port of n2, whose agent serves its keys to n3."""
    job = Watched(hvdrun, cluster, [*FOUR, PYTHON, "-c", HOLD], env=CHAIN)
    job.out.wait_for(r"port \d+", 8, timeout=100)
    ports = sorted(listening(cluster, "n2"))
    assert len(ports) >= 2, ports
    for where, target in (("n2", "127.0.0.1"), ("n3", cluster.address("n2"))):
        answer = cluster.run(where, "bob", [PYTHON, "-c", ASK, target, *ports], timeout=100, check=True).stdout
        assert len(re.findall(r"^got b''", answer, re.M)) == len(ports), (where, answer)
    job.signal(signal.SIGINT)
    assert job.end().rc == 130


LIE = r"""
import socket, struct, sys
for port in sys.argv[2:]:
    try:
        with socket.create_connection((sys.argv[1], int(port)), 10) as peer:
            peer.settimeout(10)
            # A frame of an unknown kind, and one whose value would have 4 GB.
            peer.sendall(struct.pack("<IQHHBBH", 0xffffffff, 0, 0, 0, 99, 0, 0))
            print("closed" if peer.recv(100) == b"" else "answered", port)
    except OSError as error:
        print("closed", port, type(error).__name__)
"""


def test_a_lying_child_loses_its_connection_and_the_job_goes_on(hvdrun, cluster):
    """alice herself, on n3: her connection is allowed, and its bytes are none of a child."""
    job = Watched(hvdrun, cluster, [*FOUR, PYTHON, "-c", HOLD], env=CHAIN)
    job.out.wait_for(r"port \d+", 8, timeout=100)
    ports = sorted(listening(cluster, "n2"))
    answer = cluster.run("n3", "alice", [PYTHON, "-c", LIE, cluster.address("n2"), *ports], timeout=100, check=True).stdout
    assert len(re.findall("^closed", answer, re.M)) == len(ports), answer
    job.signal(signal.SIGINT)
    assert job.end().rc == 130
