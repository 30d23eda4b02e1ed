"""What the report of a hang knows from stores and libraries: the key that ranks await, and who is not there."""

import json
import re
import signal
import subprocess

import pytest
from conftest import BIN_DIR
from console import PYTHON, Watched

MUSTER = str(BIN_DIR / "muster")
HOSTS = ["-np", "4", "-H", "n1:2,n2:2"]
KILL = ["--hang-timeout", "3", "--on-hang", "kill", "--kill-grace", "1"]


def cause(result):
    """The cause in hvdrun's report; fails if there is none, or more than one."""
    causes = re.findall(r"^(?:hvdrun|muster): cause +(.*)$", result.stderr, re.MULTILINE)
    assert len(causes) == 1, result
    return causes[0]


# All ranks wait for a key of torch's store that no rank sets. The agent of n1 serves the store.
TORCH_KEY = r"""
import datetime
import torch.distributed as dist
dist.init_process_group("gloo")
store = dist.distributed_c10d._get_default_store()
print("up", flush=True)
store.wait(["never"], datetime.timedelta(hours=1))
"""


def has_torch():
    return subprocess.run([PYTHON, "-c", "import torch.distributed as d; assert d.is_gloo_available()"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


@pytest.mark.skipif(not has_torch(), reason=f"{PYTHON} has no torch with gloo")
def test_all_ranks_wait_for_a_key_of_torchs_store(hvdrun, script, no_leftovers):
    result = hvdrun([], argv=["muster", "torchrun", "-H", "n1,n2", "--nproc-per-node=2", *KILL, script(TORCH_KEY)],
                    env={"PYTHON_EXEC": PYTHON}, timeout=120)
    assert re.search(r"all 4 ranks wait for the key \"[^\"]*never\" in torch's store, and no rank is left that could "
                     r"answer", cause(result)), result
    assert re.search(r"others +ranks 0-3: 4 ranks; .*; waits for the key \"", result.stderr), result
    assert result.rc == 124, result


# Rank 2 sleeps and never puts its key. The others poll for it as Horovod's client does: from a thread, while the main
# thread waits, and with a connection for each request.
HOROVOD_KEY = r"""
import os, threading, time, urllib.error, urllib.request
rank = os.environ["HOROVOD_RANK"]
server = f"http://{os.environ['HOROVOD_GLOO_RENDEZVOUS_ADDR']}:{os.environ['HOROVOD_GLOO_RENDEZVOUS_PORT']}"

def put(path):
    urllib.request.urlopen(urllib.request.Request(server + path, data=b"x", method="PUT")).read()

def wait(path):
    while True:
        try:
            return urllib.request.urlopen(server + path).read()
        except urllib.error.HTTPError as missing:
            assert missing.code == 404
        time.sleep(0.01)

def init():
    put("/global/" + rank)
    for other in range(4):
        wait(f"/global/{other}")

print("up", flush=True)
if rank == "2":
    time.sleep(1000)
thread = threading.Thread(target=init)
thread.start()
thread.join()
"""


def test_ranks_poll_for_a_key_of_horovods_store(hvdrun, no_leftovers):
    result = hvdrun([*HOSTS, *KILL, PYTHON, "-c", HOROVOD_KEY], timeout=120)
    assert re.search(r"rank 2 on n2 does not move .*in <module> \(<string>:\d+\), while 3 ranks wait for others",
                     cause(result)), result
    assert "waits for the key \"global/2\" in" in result.stderr, result
    assert result.rc == 137, result


# Stand-ins for the servers of NCCL's RAS and of torch's control plane, in programs that use neither library: no GPU and
# no newer torch are here. Rank 2 sleeps before operation 17, and the others are in it, as these servers say.
LIBRARIES = r"""
import json, os, socket, threading, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
is_behind = rank == 2
sequence = 16 if is_behind else 17

def serve(listener, answer):
    while True:
        peer = listener.accept()[0]
        answer(peer)
        peer.close()

def answer_torch(peer):
    entry = {"process_group": ["0", "default_pg"], "collective_seq_id": sequence, "profiling_name": "nccl:all_reduce",
             "state": "completed" if is_behind else "started", "is_p2p": False}
    peer.recv(1000)
    body = json.dumps({"version": "2.10", "entries": [entry]})
    peer.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())

def answer_nccl(peer):
    ranks = [{"rank": each, "pid": os.getpid() if each == rank else -1,
              "collective_counts": {"AllReduce": 16 if each == 2 else 17}} for each in range(size)]
    lines = peer.makefile("rw")
    for line in ("SERVER PROTOCOL 2", "OK", "OK",
                 json.dumps({"communicators": [{"size": size, "ranks": ranks, "missing_ranks": []}]})):
        lines.readline()
        lines.write(line + "\n")
        lines.flush()
    lines.close()

torch = socket.socket(socket.AF_UNIX)
torch.bind(os.environ["TORCH_WORKER_SERVER_SOCKET"])
torch.listen()
threading.Thread(target=serve, args=(torch, answer_torch), daemon=True).start()
if rank == 0:
    nccl = socket.create_server(("127.0.0.1", 28028))
    threading.Thread(target=serve, args=(nccl, answer_nccl), daemon=True).start()
print("up", flush=True)
lock = threading.Lock()
lock.acquire()
time.sleep(1000) if is_behind else lock.acquire()
"""

# Each rank needs a socket of its own.
WITH_SOCKET = 'export TORCH_WORKER_SERVER_SOCKET=$MUSTER_SESSION_DIR/torch-$RANK.sock; exec "$0" -c "$1"'


def test_libraries_name_the_rank_that_is_behind(hvdrun, no_leftovers):
    result = hvdrun([*HOSTS, *KILL, "sh", "-c", WITH_SOCKET, PYTHON, LIBRARIES], timeout=120)
    assert re.search(r"rank 2 on n2 is not in nccl:all_reduce 17 of group default_pg, in which 3 ranks wait; rank 2 "
                     r"does not move", cause(result)), result
    assert "; after nccl:all_reduce 16" in result.stderr and "; in nccl:all_reduce 17" in result.stderr, result
    assert ("nccl     communicator of 4 ranks: rank 2 has begun 16 operations AllReduce, but 3 ranks 17"
            in result.stderr), result
    assert result.rc == 137, result


# The process is not dumpable, so that another process of the user may not read its memory. This stands for hosts with a
# strict kernel.yama.ptrace_scope, and for containers that forbid it: the kernel here has no Yama.
UNREADABLE = r"""
import ctypes, os, threading, muster
if os.environ["RANK"] == "1":
    assert muster.enable_stack_dumps()
    ctypes.CDLL(None).prctl(4, 0)
print("up", flush=True)
lock = threading.Lock()

def stand():
    lock.acquire()
    lock.acquire()

stand()
"""


def test_a_program_writes_its_stack_if_its_memory_may_not_be_read(hvdrun, cluster, no_leftovers):
    job = Watched(hvdrun, cluster, args=["-np", "2", "-H", "n1:2", PYTHON, "-c", UNREADABLE])
    job.out.wait_for("up", 2)
    shown = cluster.run("head", "alice", [MUSTER, "stacks"], timeout=60)
    assert "python3: Python code of the main thread, read by faulthandler" in shown.stdout, shown
    assert len(re.findall(r"stand \(<string>:\d+\)", shown.stdout)) >= 1, shown
    report = json.loads(cluster.run("head", "alice", [MUSTER, "stacks", "--explain", "--json"], timeout=60).stdout)
    examples = [each["example"] for each in report["classes"]]
    by_rank = {rank: each["example"] for each in report["classes"] for rank in each["ranks"]}
    assert by_rank[1]["python"][0]["function"] == "stand", examples
    assert by_rank[1].get("python_source") == "faulthandler" or by_rank[0] is by_rank[1], examples
    job.signal(signal.SIGINT)
    job.end()
