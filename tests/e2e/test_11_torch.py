"""torch's programs: torchrun's and torch.distributed.launch's command lines over many hosts, the store that the agent on
rank 0's host serves, and tutorials that pass addresses as arguments."""

import os
import pathlib
import re
import shutil

import pytest
from conftest import REPOSITORY
from console import Watched
from torch_programs import FAILS_ONCE, STORE, SUM

PYTHON = "/usr/bin/python3"
DIGITS = str(REPOSITORY / "examples/ddp_digits.py")
TRAINING = 240.0  # importing torch takes long on a busy machine
ENV = {"PYTHON_EXEC": PYTHON}
REAL = pytest.mark.compat("torch-1.13", None)

# The store outlives rank 0: the others use it after it has gone.
OUTLIVES = r"""
import datetime, os, time
from torch.distributed import TCPStore
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, False, datetime.timedelta(seconds=60))
store.set(f"here {rank}", str(rank))
store.wait([f"here {other}" for other in range(size)])
if rank == 0:
    os._exit(0)
store.add("left", 1)
while store.add("left", 0) < size - 1:
    time.sleep(0.05)
assert store.get("here 0") == b"0"
print("still there", flush=True)
"""

HOLD = r"""
import os, sys, time, datetime
from torch.distributed import TCPStore
store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), 2, False, datetime.timedelta(seconds=60))
store.set("secret", "the job's own")
print("store", os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"], flush=True)
time.sleep(1000)
"""

# Torch 1.13's GET of a key, by hand: nothing may come back.
ASK = r"""
import socket, struct, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 10) as peer:
    peer.settimeout(10)
    key = b"/secret"
    try:
        peer.sendall(b"\x02" + struct.pack("<Q", len(key)) + key)
        print("got", peer.recv(1000))
    except OSError as error:
        print("got", b"", type(error).__name__)
"""


@pytest.fixture(scope="module")
def torch(clusters):
    probe = clusters.get(4).run("n1", "alice", [PYTHON, "-c", "import torch.distributed, sklearn"], timeout=TRAINING)
    if probe.returncode != 0:
        pytest.skip(f"python3-torch and python3-sklearn are needed: {probe.stderr.strip().splitlines()[-1]}")


def muster(hvdrun, *args, **options):
    return hvdrun([], argv=["muster", *args], env=ENV, timeout=TRAINING, **options)


def sums(result):
    """{rank: (sum, size, local rank as argument, LOCAL_RANK, agent store)}"""
    assert result.rc == 0, result
    found = re.findall(r"^\[(\d+)\]<stdout>:sum (\d+) of (\d+) local (\S+) (\S+) store (\S+)$", result.stdout, re.M)
    return {int(rank): tuple(rest) for rank, *rest in found}


@REAL
def test_torchrun_trains_as_on_one_host(hvdrun, torch, no_leftovers):
    one = muster(hvdrun, "torchrun", "--nproc_per_node=4", DIGITS)
    assert one.rc == 0 and "accuracy on 360 test images" in one.stdout, one
    many = muster(hvdrun, "torchrun", "-H", "n1,n2", "--nproc_per_node=2", "--nnodes=2", DIGITS)
    assert many.rc == 0, many
    assert many.stdout.splitlines()[-1] == one.stdout.splitlines()[-1]


@REAL
def test_all_ranks_are_clients_of_the_agents_store(hvdrun, torch, script, no_leftovers):
    result = muster(hvdrun, "torchrun", "-H", "n1,n2", "--nproc-per-node", "2", script(SUM))
    assert sums(result) == {rank: ("10", "4", "None", str(rank % 2), "True") for rank in range(4)}, result


def test_command_line_of_a_tutorial_with_a_terminal_per_node(hvdrun, torch, script, no_leftovers):
    result = muster(hvdrun, "torchrun", "-H", "n1,n2", "python", "-m", "torch.distributed.launch", "--nproc_per_node=4",
                    "--nnodes=2", "--node_rank=0", "--master_addr=10.1.1.20", "--master_port=1234", script(SUM))
    assert sums(result) == {rank: ("36", "8", str(rank % 4), str(rank % 4), "True") for rank in range(8)}, result


@REAL
def test_tutorial_with_addresses_as_arguments(hvdrun, torch, script, no_leftovers):
    result = hvdrun(["-np", "4", "-H", "n1:2,n2:2", "--expand", PYTHON, script(SUM), "--dist-url",
                     "tcp://{master_addr}:{master_port}", "--world-size", "{size}", "--rank", "{rank}"], timeout=TRAINING)
    assert sums(result) == {rank: ("10", "4", "None", str(rank % 2), "-") for rank in range(4)}, result


@REAL
def test_store_outlives_rank_0(hvdrun, torch, script, no_leftovers):
    result = muster(hvdrun, "torchrun", "-H", "n1,n2", "--nproc_per_node=2", script(OUTLIVES))
    assert result.rc == 0, result
    assert result.stdout.count("still there") == 3, result


@REAL
def test_store_used_directly(hvdrun, torch, script, no_leftovers):
    result = muster(hvdrun, "torchrun", "-H", "n1,n2,n3,n4", "--nproc_per_node=2", script(STORE))
    assert result.rc == 0 and result.stdout.count("done") == 8, result


@REAL
def test_restart_on_a_fresh_store(hvdrun, torch, script, no_leftovers):
    result = muster(hvdrun, "torchrun", "-H", "n1,n2", "--nproc_per_node=2", "--max-restarts=2", script(FAILS_ONCE))
    assert result.rc == 0, result
    assert result.stdout.count("attempt 1 sum 10") == 4, result
    assert re.search(r"^hvdrun: rank 2 on n2 .*: exit code 3\nhvdrun: restart 1 of 2", result.stderr, re.M), result


def test_restarts_come_to_an_end(hvdrun, no_leftovers):
    args = ["--no-python", "-H", "n1,n2", "--max-restarts=2", "sh", "-c", "[ $RANK = 0 ] || exit 4; sleep 1000"]
    result = muster(hvdrun, "torchrun", *args)
    assert result.rc == 4, result
    assert result.stderr.count("restart") == 3 and "after 2 restarts" in result.stderr.splitlines()[-1], result
    # What a restart cannot cure, and what the user stops, is over at once.
    result = muster(hvdrun, "torchrun", "--no-python", "-H", "n1,n2", "--max-restarts=2", "/nonexistent")
    assert result.rc == 127 and "restart" not in result.stderr, result


def test_interrupt_ends_all_attempts(hvdrun, cluster, no_leftovers):
    program = "echo up $MUSTER_ATTEMPT; [ $MUSTER_ATTEMPT = 1 ] || exit 4; exec sleep 1000"
    job = Watched(hvdrun, cluster, env=ENV, argv=["muster", "torchrun", "--no-python", "-H", "n1,n2", "--max-restarts=2",
                                                  "sh", "-c", program])
    job.out.wait_for(r"up 1", 2, timeout=TRAINING)
    job.signal(2)
    result = job.end(TRAINING)
    assert result.rc == 130 and result.stderr.count("restart 1 of 2") == 1 and "restart 2" not in result.stderr, result


def test_interrupt_while_a_failed_attempt_is_ended(hvdrun, cluster, no_leftovers):
    """What ended that attempt stays its failure, and no other begins."""
    # Rank 0 ends when it is let go, after the interrupt has arrived.
    program = ("[ $RANK = 0 ] || { read is_ready </home/alice/ready; exit 4; }; "
               "trap 'echo told; read is_over </home/alice/over; exit 0' TERM; echo yes >/home/alice/ready; "
               "sleep 1000 & wait")
    pipes = ["/home/alice/ready", "/home/alice/over"]
    cluster.run("n1", "alice", ["mkfifo", *pipes], check=True)
    try:
        job = Watched(hvdrun, cluster, env=ENV, argv=["muster", "torchrun", "--no-python", "-H", "n1",
                                                      "--nproc-per-node=2", "--max-restarts=2", "--kill-grace", "1000",
                                                      "sh", "-c", program])
        job.out.wait_for("told", timeout=TRAINING)
        job.signal(2)
        job.err.wait_for("another signal ends them at once", timeout=TRAINING)
        # `<>` does not wait for a reader: a second SIGTERM may have ended rank 0's read.
        cluster.run("n1", "alice", ["sh", "-c", "echo yes 1<>/home/alice/over"], check=True)
        result = job.end(TRAINING)
    finally:
        for pipe in pipes:
            cluster.path("n1", pipe).unlink()
    assert result.rc == 4 and "restart" not in result.stderr, result


def test_nobody_else_gets_anything(hvdrun, cluster, torch, script, no_leftovers):
    path = script(HOLD)
    job = Watched(hvdrun, cluster, argv=["muster", "torchrun", "-H", "n1,n2", path], env=ENV)
    job.out.wait_for(r"store \S+ \d+", 2, timeout=TRAINING)
    address, port = re.search(r"store (\S+) (\d+)", job.out.text).groups()
    for host in cluster.nodes:
        answer = cluster.run(host, "bob", [PYTHON, "-c", ASK, address, port], check=True).stdout
        assert answer.startswith("got b''"), (host, answer)
    for host in ("n1", "n2"):  # alice is let in, from the job's hosts
        answer = cluster.run(host, "alice", [PYTHON, "-c", ASK, address, port], check=True).stdout
        assert "the job's own" in answer, (host, answer)
    answer = cluster.run("n4", "alice", [PYTHON, "-c", ASK, address, port], check=True).stdout
    assert answer.startswith("got b''"), answer  # not a host of the job: nobody there can vouch for her
    job.signal(2)
    assert job.end(TRAINING).rc == 130


# What a script sees of how it was started.
SHOWN = r"""
import os, sys
assert __name__ == "__main__"
print("args", *sys.argv, flush=True)
print("oops", file=sys.stderr, flush=True)
"""


def test_script_is_run_by_its_path(hvdrun, script, no_leftovers):
    path = script(SHOWN)
    result = muster(hvdrun, "torchrun", "-H", "n1,n2", "--run-path", path, "-c", "a b")
    assert (result.rc, sorted(result.stdout.splitlines())) == (
        0, [f"[{rank}]<stdout>:args {path} -c a b" for rank in range(2)]), result


def test_streams_go_where_torchrun_sends_them(hvdrun, cluster, script, no_leftovers):
    result = muster(hvdrun, "torchrun", "-H", "n1,n2", "--nproc-per-node=2", "--log-dir", "logs", "-r", "0:1,1:3", "-t",
                    "1:2", "--local-ranks-filter", "1", script(SHOWN), cwd="/home/alice")
    logs = cluster.path("head", "/home/alice/logs")
    found = {f"{file.parent.name}/{file.name}": file.read_text() for file in sorted(logs.glob("*/*"))}
    shutil.rmtree(logs)
    assert result.rc == 0 and result.stdout == "", result
    assert sorted(re.findall(r"^\[.*", result.stderr, re.M)) == ["[1]<stderr>:oops", "[3]<stderr>:oops"], result
    out = "args /home/alice/train.py\n"
    assert found == {"rank.0/stdout": out, "rank.0/stderr": "", "rank.1/stdout": out, "rank.1/stderr": "oops\n",
                     "rank.2/stdout": out, "rank.2/stderr": "", "rank.3/stdout": out, "rank.3/stderr": "oops\n"}


def test_a_rank_for_each_cpu(hvdrun, cluster, no_leftovers):
    args = ["torchrun", "--no-python", "-H", "n1,n2:1", "--nproc-per-node", "auto"]
    cpus = len(os.sched_getaffinity(0))
    dry = muster(hvdrun, *args, "--dry-run", "--probe", "true")
    assert (dry.rc, len(dry.stdout.splitlines())) == (0, 1 + cpus + 1), dry
    result = muster(hvdrun, *args, "sh", "-c", "echo $LOCAL_WORLD_SIZE")
    assert sorted(line.split(":")[1] for line in result.stdout.splitlines()) == sorted([str(cpus)] * cpus + ["1"]), result
    result = muster(hvdrun, "torchrun", "--no-python", "-H", "n1,n2", "--nproc-per-node", "gpu", "true")
    if not pathlib.Path("/proc/driver/nvidia/gpus").exists() and not pathlib.Path("/sys/class/kfd").exists():
        assert result.rc == 2 and "n1 has no visible GPU: " in result.stderr and "n2" in result.stderr, result
    asked = muster(hvdrun, *args, "--dry-run", "true")
    assert asked.rc == 2 and "--dry-run asks no host: add --probe, or --assume-node" in asked.stderr, asked
