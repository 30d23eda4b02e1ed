"""Jobs that stand still: the report names the rank, its host and its line. Healthy jobs give no report."""

import json
import re
import signal
import subprocess

import pytest
from conftest import BIN_DIR
from console import PYTHON, Watched
from launcherd_user import Launcherd

MUSTER = str(BIN_DIR / "muster")
HOSTS = ["-np", "4", "-H", "n1:2,n2:2"]
KILL = ["--hang-timeout", "3", "--on-hang", "kill", "--kill-grace", "1"]

# A barrier over sockets: rank 0 hears from all others and answers. `hold_up` is what one rank does before it.
BARRIER = r"""
import ctypes, itertools, os, signal, socket, sys, threading, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    listener = socket.create_server(address, backlog=size)
    peers = [listener.accept()[0] for _ in range(size - 1)]
else:
    while True:
        try:
            peers = [socket.create_connection(address)]
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
for peer in peers:
    peer.settimeout(None)

def barrier():
    if rank == 0:
        for peer in peers:
            peer.recv(1)
        for peer in peers:
            peer.sendall(b"x")
    else:
        peers[0].sendall(b"x")
        peers[0].recv(1)

def hold_up():
    HOLD_UP

barrier()
print("up", flush=True)
if rank == int(sys.argv[1]):
    hold_up()
barrier()
print("done", flush=True)
"""

LOOPS = """
    number = 0
    while number >= 0:
        number += 1
        number -= 1
        number ^= 0
""".strip()


def barrier(hold_up, rank=2):
    return [PYTHON, "-c", BARRIER.replace("HOLD_UP", hold_up), str(rank)]


def line_of(hold_up, text):
    """The number of the line of the program that has this text."""
    lines = BARRIER.replace("HOLD_UP", hold_up).split("\n")
    return next(number for number, line in enumerate(lines, 1) if text in line)


def cause(result):
    """The cause in hvdrun's report; fails if there is none, or more than one."""
    causes = re.findall(r"^hvdrun: cause +(.*)$", result.stderr, re.MULTILINE)
    assert len(causes) == 1, result
    assert result.stderr.count("the job seems to hang: no progress for ") == 1, result
    report = [line for line in result.stderr.splitlines() if line.startswith("hvdrun: ")]
    assert len(report) <= 25 + 12, result  # the report, and the lines about the end
    return causes[0]


HANGS = {
    "lock": ("lock = threading.Lock(); lock.acquire(); lock.acquire()", 2, "does not move", "lock.acquire()"),
    "sleep": ("time.sleep(1000)", 0, "does not move", "time.sleep(1000)"),
    "pipe": ("os.read(os.pipe()[0], 1)", 3, "does not move", "os.read"),
    "child": ("os.system('exec sleep 1000')", 1, "does not move", "os.system"),
    "loop": (LOOPS, 2, "loops", None),
    "c loop": ("sum(itertools.repeat(0))", 1, "computing in one call", "itertools.repeat(0)"),
    "stopped": ("os.kill(os.getpid(), signal.SIGSTOP)", 2, "is stopped by a signal", "signal.SIGSTOP"),
}


@pytest.mark.parametrize("name", HANGS)
def test_one_rank_holds_the_others_up(hvdrun, no_leftovers, name):
    hold_up, rank, what, text = HANGS[name]
    result = hvdrun([*HOSTS, *KILL, *barrier(hold_up, rank)], timeout=90)
    why = cause(result)
    assert f"rank {rank} on n{rank // 2 + 1} " in why and what in why, result
    place = r"hold_up \(<string>:(\d+)\)"
    found = re.search(place, why)
    assert found, result
    if text:
        assert int(found[1]) == line_of(hold_up, text), result
    assert result.rc == 137, result
    assert f"rank {rank} on n{rank // 2 + 1}" in result.stderr and "ended because the job hung" in result.stderr, result


TORCH = r"""
import os, sys, threading, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print("up", flush=True)
if dist.get_rank() == 1:
    time.sleep(1000)
dist.barrier()
"""


def has_torch():
    return subprocess.run([PYTHON, "-c", "import torch.distributed as d; assert d.is_gloo_available()"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


@pytest.mark.skipif(not has_torch(), reason=f"{PYTHON} has no torch with gloo")
def test_a_rank_is_missing_in_a_barrier_of_gloo(hvdrun, no_leftovers):
    result = hvdrun([*HOSTS, *KILL, PYTHON, "-c", TORCH], timeout=120)
    assert re.search(r"rank 1 on n1 does not move .*in <module> \(<string>:9\), while 3 ranks wait for others",
                     cause(result)), result


LIBMUSTER = r"""
import sys, time
import numpy as np
import muster.numpy as hvd
hvd.init()
hvd.allreduce(np.ones(3), name="ready")
print("up", flush=True)
if hvd.rank() == 3:
    time.sleep(1000)
hvd.allreduce(np.ones(3), name="grad/17")
"""


def test_a_rank_is_missing_in_an_operation_of_libmuster(hvdrun, no_leftovers):
    result = hvdrun([*HOSTS, *KILL, PYTHON, "-c", LIBMUSTER], timeout=90)
    assert "rank 3 on n2 " in cause(result) and "<module> (<string>:9)" in cause(result), result


INIT = r"""
import os, time
import muster.numpy as hvd
if os.environ["RANK"] == "2":
    time.sleep(1000)
hvd.init()
"""


def test_ranks_wait_for_a_key_that_one_rank_does_not_set(hvdrun, no_leftovers):
    result = hvdrun([*HOSTS, *KILL, PYTHON, "-c", INIT], timeout=90)
    assert "rank 2 on n2 does not move" in cause(result), result


# Work that changes its functions, on one rank or on all. The depth is by chance, so that no looks find the same calls.
HEALTHY = {
    "evaluation on rank 0": ("0", r"""
    import random
    def forward(depth):
        return forward(depth - 1) if depth else sum(i * i for i in range(20000))
    def score(depth):
        return score(depth - 1) if depth else max(str(i) for i in range(20000))
    end = time.monotonic() + 14
    while time.monotonic() < end:
        forward(random.randrange(40)), score(random.randrange(40))
"""),
    "a child that works": ("1", r"""
    import subprocess
    subprocess.run(["timeout", "14", "sh", "-c", "while :; do :; done"])
"""),
    "threads that work": ("3", r"""
    def work(end):
        while time.monotonic() < end:
            sum(range(1000))
    thread = threading.Thread(target=work, args=(time.monotonic() + 14,))
    thread.start()
    thread.join()
"""),
    "imports": ("2", r"""
    import importlib
    end = time.monotonic() + 14
    names = ["json.decoder", "email.message", "xml.dom.minidom", "http.client", "asyncio.base_events", "decimal",
             "unittest.mock", "argparse", "typing", "ast"]
    while time.monotonic() < end:
        for name in names:
            importlib.reload(importlib.import_module(name))
"""),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_job_whose_rank_works_is_not_reported(hvdrun, no_leftovers, name):
    rank, work = HEALTHY[name]
    result = hvdrun([*HOSTS, "--hang-timeout", "2", *barrier(work.strip(), rank)], timeout=90)
    assert result.rc == 0 and result.stdout.count("done") == 4, result
    assert "hang" not in result.stderr, result


def test_idle_ranks_are_not_reported(hvdrun, no_leftovers):
    result = hvdrun([*HOSTS, "--hang-timeout", "1", "sleep", "12"])
    assert result.rc == 0 and "hang" not in result.stderr, result


def test_zero_switches_the_watch_off(hvdrun, no_leftovers):
    result = hvdrun([*HOSTS, "--hang-timeout", "0", "--timeout", "8", *barrier(HANGS["stopped"][0])])
    assert result.rc == 124 and "seems to hang" not in result.stderr, result


def test_a_warning_and_the_way_on(hvdrun, cluster, no_leftovers):
    """The rank is stopped from outside, and goes on later."""
    *python, program, rank = barrier("time.sleep(20)", 3)
    job = Watched(hvdrun, cluster,
                  args=[*HOSTS, "--hang-timeout", "3", *python, program + "time.sleep(3)\n", rank])
    job.out.wait_for("up", 4)
    pid = next(rank["pid"] for rank in json.loads(status(cluster, "--json"))["ranks"] if rank["rank"] == 1)
    cluster.run("n1", "alice", ["kill", "-STOP", str(pid)], check=True)
    job.err.wait_for(r"hvdrun: cause +rank 1 on n1 is stopped by a signal")
    assert "seems to hang: rank 1 on n1 is stopped by a signal" in status(cluster)
    explained = cluster.run("head", "alice", [MUSTER, "stacks", "--explain"], timeout=60)
    assert explained.returncode == 3 and "rank 1 on n1 is stopped" in explained.stdout, explained
    as_json = cluster.run("head", "alice", [MUSTER, "stacks", "--explain", "--json"], timeout=60)
    report = json.loads(as_json.stdout)
    assert as_json.returncode == 3 and report["classes"][0]["ranks"] == [1] and report["answered"] == 4, as_json
    cluster.run("n1", "alice", ["kill", "-CONT", str(pid)], check=True)
    job.err.wait_for(r"hvdrun: the job goes on after \d+ s")
    assert job.end().rc == 0


def status(cluster, *args):
    return cluster.run("head", "alice", [MUSTER, "status", *args], check=True, timeout=60).stdout


def test_a_healthy_job_can_be_explained(hvdrun, cluster, no_leftovers):
    job = Watched(hvdrun, cluster, args=[*HOSTS, *barrier(HEALTHY["evaluation on rank 0"][1].strip().replace("+ 14", "+ 600"), 0)])
    job.out.wait_for("up", 4)
    explained = cluster.run("head", "alice", [MUSTER, "stacks", "--explain"], timeout=60)
    assert explained.returncode == 0 and "no hang found: rank 0 on n1 works" in explained.stdout, explained
    job.signal(signal.SIGINT)
    job.end()


RESTARTS = BARRIER.replace("if rank == int(sys.argv[1]):",
                           'if rank == int(sys.argv[1]) and os.environ["MUSTER_GENERATION"] == "0":')


def test_restart(hvdrun, cluster, no_leftovers):
    events = "/home/alice/events.json"
    program = [PYTHON, "-c", RESTARTS.replace("HOLD_UP", HANGS["stopped"][0]), "2"]
    result = hvdrun([*HOSTS, "--hang-timeout", "3", "--on-hang", "restart", "--kill-grace", "1", "--json-events", events,
                     *program], timeout=90)
    assert result.rc == 0 and result.stdout.count("done") >= 4, result
    assert "rank 2 on n2 is stopped by a signal" in cause(result), result
    assert "restart 1 of 3: the whole job starts again" in result.stderr, result
    path = cluster.path("head", events)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.unlink()
    (hang,) = [line["hang_reported"] for line in lines if "hang_reported" in line]
    assert hang["classes"][0]["suspect"] and hang["classes"][0]["ranks"] == [2] and hang["size"] == 4, hang
    (restart,) = [line["job_restarting"] for line in lines if "job_restarting" in line]
    assert restart["rank"] == 2 and "ended because the job hung" in restart["reason"], restart


def test_a_job_of_launcherd(hvdrun, cluster, no_leftovers):
    launcherd = Launcherd(hvdrun, cluster, hosts="n1:2,n2:2")
    job = launcherd.submit("-np", "4", "--hang-timeout", "3", *barrier(HANGS["stopped"][0]))
    launcherd.watched.err.wait_for(f"job {job}: it seems to hang: rank 2 on n2 is stopped by a signal")
    assert launcherd.job(job)["hang"]["classes"][0]["ranks"] == [2]
    assert "seems to hang: rank 2 on n2 is stopped by a signal" in launcherd.asked("status", job)
    assert "seems to hang: rank 2 on n2 is stopped" in launcherd.asked("events", job)
    assert "rank 2 on n2 is stopped by a signal" in launcherd.asked("stacks", "--explain", job, code=3)
    attached = launcherd.watch("attach", job)
    attached.err.wait_for("cause +rank 2 on n2 is stopped by a signal")
    launcherd.asked("kill", job)
    attached.end()
    assert "hang" not in launcherd.job(job)
    launcherd.asked("stacks", "--explain", job, code=1)
    launcherd.close()
