"""libmuster between hosts: right results over every shape, and no hang whatever happens to a rank (docs/collectives.md)."""

import json
import os
import random
import signal
import subprocess
import time

import pytest
from conftest import BIN_DIR
from console import Watched

RANK = str(BIN_DIR.parent / "tests/programs/collective_rank")
PERF = str(BIN_DIR / "muster_perf")
HOSTS = ["-np", "4", "-H", "n1:2,n2:2"]
# Kills at random moments; more of them: MUSTER_KILLS=1000.
KILLS = int(os.environ.get("MUSTER_KILLS", "50"))
FAILED = r"failed ([0-9.]+) (\d+) (-?\d+) (\S*): (.*)"
DIED, TIMEOUT, MISMATCH = 14, 4, 9
ANSWER_MS = 3000  # generous to a busy machine; the promise is one second


@pytest.fixture
def start(hvdrun, cluster, no_leftovers):
    def call(command, *options, hosts=HOSTS):
        return Watched(hvdrun, cluster, [*hosts, *options, *command])
    return call


def pids(job, ranks=4):
    return {rank: int(job.out.wait_for(rf"\[{rank}\]<stdout>:pid (\d+)")[-1].group(1)) for rank in range(ranks)}


def failure(job, rank):
    """(when in ms, code, whose, on which host, message) of what `rank` was told."""
    when, code, whose, host, message = job.out.wait_for(rf"\[{rank}\]<stdout>:" + FAILED)[0].groups()
    return float(when), int(code), int(whose), host, message


def shared_memory(cluster, host):
    return cluster.run(host, "root", ["sh", "-c", "ls /dev/shm | grep -i muster; true"], check=True).stdout


@pytest.mark.parametrize("hosts", ["n1:3", "n1:2,n2:2", "n1:3,n2:1", "n1:1,n2:1,n3:1,n4:1"])
def test_results_are_right(hvdrun, cluster, hosts):
    ranks = sum(int(host.split(":")[1]) for host in hosts.split(","))
    for operation in ("allreduce", "allgather", "reduce_scatter", "broadcast", "alltoall", "barrier"):
        done = hvdrun(["-np", str(ranks), "-H", hosts, "--quiet", PERF, operation, "-b", "240", "-e", "4M", "-f", "64",
                       "-n", "3", "--json"])
        assert done.rc == 0, done.stderr
        rows = [json.loads(line.split(">:", 1)[1]) for line in done.stdout.splitlines()]
        assert rows and all(row["wrong"] == 0 and row["ranks"] == ranks for row in rows)


@pytest.mark.parametrize("hosts", [["-np", "3", "-H", "n1:3"], HOSTS])
def test_a_killed_rank_is_named_by_all_others_and_they_go_on(start, cluster, hosts):
    job = start([RANK], "--keep-going", hosts=hosts)
    ranks = int(hosts[1])
    pid = pids(job, ranks)[1]
    killed_at = time.time() * 1000
    cluster.run("n1", "alice", ["kill", "-9", str(pid)], check=True)
    for rank in range(ranks):
        if rank == 1:
            continue
        when, code, whose, host, message = failure(job, rank)
        assert (code, whose, host) == (DIED, 1, "n1"), message
        assert "was killed by signal 9" in message
        assert when - killed_at < ANSWER_MS
    job.out.wait_for(rf"left {ranks - 1}: ok", count=ranks - 1)
    assert job.end().rc == 128 + signal.SIGKILL
    for host in ("n1", "n2"):
        assert shared_memory(cluster, host) == ""


def hosts_of_ranks(hosts):
    """The host of each rank, in their order, of a list as -H takes it."""
    return [name for name, slots in (host.split(":") for host in hosts.split(",")) for _ in range(int(slots))]


def kill_all_at_once(cluster, pids_by_host):
    """Within some ms. False: one had ended before, since others were faster."""
    wait = 'echo ready; read go; exec 2>/dev/null; kill -9 "$@"'
    running = [cluster.start(host, "alice", ["sh", "-c", wait, "sh", *map(str, pids)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True) for host, pids in pids_by_host.items()]
    for one in running:
        assert one.stdout.readline() == "ready\n"
    for one in running:
        one.stdin.close()
    ended = [one.wait(60) for one in running]
    for one in running:
        one.stdout.close()
    return ended == [0] * len(running)


@pytest.mark.parametrize("hosts", ["n1:4", "n1:2,n2:2", "n1:1,n2:1,n3:1,n4:1"])
def test_two_ranks_killed_at_once_are_left_out(start, cluster, hosts):
    """The others hear of the two ends at different moments, some of them when they have agreed on who is left."""
    at = hosts_of_ranks(hosts)
    seed = int(os.environ.get("MUSTER_SEED", str(random.randrange(1 << 30))))
    moments = random.Random(seed)
    killed = 0
    while killed < max(KILLS // 10, 3):
        job = start([RANK], "--keep-going", "--quiet", hosts=["-np", "4", "-H", hosts])
        running = pids(job)
        victims = moments.sample(range(4), 2)
        by_host = {}
        for victim in victims:
            by_host.setdefault(at[victim], []).append(running[victim])
        time.sleep(moments.random() * 0.2)  # not to wait for something: the moment itself is what varies
        if not kill_all_at_once(cluster, by_host):
            job.end()
            continue
        killed += 1
        for rank in set(range(4)) - set(victims):
            _, code, whose, host, message = failure(job, rank)
            assert code == DIED and whose in victims and host == at[whose], f"seed {seed}, {victims}: {message}"
        job.out.wait_for("left 2: ok", count=2)
        assert job.end().rc == 137


@pytest.mark.parametrize("hosts", ["n1:4", "n1:2,n2:2", "n1:1,n2:1,n3:1,n4:1"])
def test_a_rank_killed_while_the_world_forms_is_named_by_all_others(start, cluster, hosts):
    at = hosts_of_ranks(hosts)
    seed = int(os.environ.get("MUSTER_SEED", str(random.randrange(1 << 30))))
    moments = random.Random(seed)
    command = ["sh", "-c", 'echo pid $$; exec "$0"', RANK]
    for _ in range(max(KILLS // 10, 3)):
        job = start(command, "--keep-going", "--quiet", hosts=["-np", "4", "-H", hosts])
        running = pids(job)
        victim = moments.randrange(4)
        time.sleep(moments.random() * 0.1)  # not to wait for something: the moment itself is what varies
        assert kill_all_at_once(cluster, {at[victim]: [running[victim]]})
        for rank in set(range(4)) - {victim}:
            _, code, whose, host, message = failure(job, rank)
            assert (code, whose) == (DIED, victim) and host in ("", at[victim]), f"seed {seed}, {victim}: {message}"
            assert "signal 9" in message, message
        assert job.end().rc == 137


def test_random_kills(start, cluster):
    """At random moments of random operations: every rank that is left is told the right name in time."""
    seed = int(os.environ.get("MUSTER_SEED", str(random.randrange(1 << 30))))
    print(f"MUSTER_SEED={seed}")
    moments = random.Random(seed)
    slowest = 0
    for _ in range(KILLS):
        job = start([RANK], "--keep-going", "--quiet")
        running = pids(job)
        victim = moments.randrange(4)
        host = "n1" if victim < 2 else "n2"
        time.sleep(moments.random() * 0.3)  # not to wait for something: the moment itself is what varies
        killed_at = time.time() * 1000
        cluster.run(host, "alice", ["kill", "-9", str(running[victim])], check=True)
        for rank in set(range(4)) - {victim}:
            when, code, whose, at, message = failure(job, rank)
            assert (code, whose, at) == (DIED, victim, host), f"seed {seed}: {message}"
            slowest = max(slowest, when - killed_at)
        assert job.end().rc == 137
    print(f"{KILLS} kills, the slowest answer came after {slowest:.0f} ms")
    assert slowest < ANSWER_MS


@pytest.mark.parametrize("seed", ["7", "8", "9"])  # which operation it is that lacks a rank
def test_a_rank_that_exits_without_calling(start, seed):
    job = start([RANK, "--end-after", "20", "--seed", seed])
    pids(job)
    began = time.monotonic()
    for rank in (0, 2, 3):
        _, code, whose, host, message = failure(job, rank)
        assert (code, whose, host) == (DIED, 1, "n1") and "rank 1" in message, message
    assert time.monotonic() - began < 10  # not at the time-out
    job.out.wait_for("left 3: ok", count=3)
    assert job.end().rc == 0


def test_a_stopped_rank_is_named_at_the_deadline(start, cluster):
    job = start([RANK], "--keep-going", "-x", "MUSTER_OPERATION_TIMEOUT=2")
    pid = pids(job)[3]
    cluster.run("n2", "alice", ["kill", "-STOP", str(pid)], check=True)
    for rank in (0, 1, 2):
        _, code, whose, host, message = failure(job, rank)
        assert code == TIMEOUT and (whose, host) == (3, "n2"), message
    job.signal(signal.SIGINT)
    job.end()


def test_a_cut_link_ends_in_an_error_on_both_sides(start, cluster):
    job = start([RANK], "--keep-going", "-x", "MUSTER_OPERATION_TIMEOUT=2")
    pids(job)
    cluster.cut("n2")
    try:
        for rank in (0, 1):
            _, code, _, _, message = failure(job, rank)
            assert code in (TIMEOUT, DIED) and "n2" in message, message
    finally:
        cluster.heal("n2")
    job.signal(signal.SIGINT)
    job.end()


def test_of_a_host_that_is_cut_off_the_same_rank_is_named_each_time(start, cluster):
    """Until the lease ends nobody knows whether the host is gone, but hvdrun tells the ranks that it does not answer.
    When the lease ends, hvdrun ends the job."""
    job = start([RANK], "--keep-going", "-x", "MUSTER_OPERATION_TIMEOUT=3")
    pids(job)
    cluster.cut("n2")
    try:
        for rank in (0, 1):
            _, code, whose, host, message = failure(job, rank)
            assert (code, whose, host) == (TIMEOUT, 2, "n2"), message
            assert "n2 does not answer the launcher" in message, message
        again = [one.groups() for one in job.out.wait_for(r"\[[01]\]<stdout>:again (\d+) (-?\d+): (.*)", count=4)]
        assert {step[:2] for step in again} == {(str(TIMEOUT), "2")}, again
        assert all("n2 does not answer the launcher" in message for _, _, message in again), again
        assert job.end().rc == 125
    finally:
        cluster.heal("n2")


def test_ranks_that_call_different_things(start):
    job = start([RANK, "--differ-at", "10"])
    for rank in range(4):
        _, code, _, _, message = failure(job, rank)
        assert code == MISMATCH and "rank 1 (n1" in message and "broadcast" in message, message
    job.end()


@pytest.mark.parametrize("by_name", [False, True])
def test_without_a_launcher(cluster, by_name):
    """By name, too, which on rank 0's own host means 127.0.1.1: nobody else reaches a rank there."""
    secret = "/root/muster-secret"
    address = "n1" if by_name else cluster.address("n1")
    for host in ("n1", "n2"):
        path = cluster.path(host, secret)
        path.write_text("5a" * 32)
        path.chmod(0o600)

    def rank(number, host):
        settings = [f"MUSTER_RENDEZVOUS=tcp://{address}:7711", f"MUSTER_RANK={number}", "MUSTER_SIZE=3",
                    f"MUSTER_SECRET_FILE={secret}"]
        return cluster.start(host, "root", ["env", *settings, PERF, "-e", "1M", "-n", "3", "--json"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    running = [rank(0, "n1"), rank(1, "n1"), rank(2, "n2")]
    outputs = [one.communicate(timeout=60) for one in running]
    assert [one.returncode for one in running] == [0, 0, 0], outputs
    rows = [json.loads(line) for line in outputs[0][0].splitlines()]
    assert rows[-1]["hosts"] == 2 and all(row["wrong"] == 0 for row in rows)


@pytest.mark.parametrize("algorithm", ["peer_read", "staged"])
def test_random_kills_on_one_host(start, cluster, algorithm):
    """The kernel says of memory that is being read that its rank is gone before the agent can know: who is known."""
    moments = random.Random(KILLS)
    for _ in range(KILLS // 5):
        job = start([RANK], "--keep-going", "--quiet", "-x", f"MUSTER_ALGORITHM={algorithm}",
                    hosts=["-np", "2", "-H", "n1:2"])
        running = pids(job, 2)
        victim = moments.randrange(2)
        time.sleep(moments.random() * 0.1)  # not to wait for something: the moment itself is what varies
        cluster.run("n1", "alice", ["kill", "-9", str(running[victim])], check=True)
        _, code, whose, at, message = failure(job, 1 - victim)
        assert (code, whose, at) == (DIED, victim, "n1") and "killed by signal 9" in message, message
        assert job.end().rc == 137


def running_now():
    """How many threads want a processor on this machine, this one left out; the mean of some looks."""
    looks = []
    for _ in range(20):
        with open("/proc/loadavg") as file:
            looks.append(int(file.read().split()[3].split("/")[0]) - 1)
        time.sleep(0.02)  # between looks
    return sum(looks) / len(looks)


def test_more_ranks_than_cores(hvdrun):
    """Nobody spins away the core that the rank it waits for needs: that would cost a time slice, 4 ms, at each turn."""
    ranks = 4 * len(os.sched_getaffinity(0))
    medians = []
    while not medians or (min(medians) > 2000 and len(medians) < 5):
        done = hvdrun(["-np", str(ranks), "-H", f"n1:{ranks}", "--quiet", PERF, "allreduce", "-b", "4", "-e", "64K",
                       "-f", "128", "-n", "200", "--json"])
        assert done.rc == 0, done.stderr
        rows = [json.loads(line.split(">:", 1)[1]) for line in done.stdout.splitlines()]
        assert rows and all(row["wrong"] == 0 for row in rows), rows
        medians.append(max(row["p50_us"] for row in rows))
    print(f"{ranks} ranks, the slowest size: {medians} us")
    if min(medians) > 2000 and running_now() > 0.5:
        pytest.skip(f"other programs use the cores, and cost as much: {medians} us")
    assert min(medians) <= 2000
