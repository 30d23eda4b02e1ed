"""Jobs that go on after a failure: --on-failure, --spares, --max-restarts, exit code 93, torchrun's --nnodes MIN:MAX."""

import contextlib
import json
import contextlib
import os
import re
import signal
import time

import pytest
from cluster import testing
from conftest import BIN_DIR
from console import PYTHON, Watched

LEASE = 15.0  # hvdrun's
PATIENCE = 40.0

# Generation 0 waits to be disturbed; all later ones end well.
LATER_WELL = ("echo up $MUSTER_GENERATION $MUSTER_RANK $MUSTER_SIZE $MUSTER_HOSTNAME; "
              "[ $MUSTER_GENERATION != 0 ] || exec sleep 1000")
# Every generation waits.
ALWAYS_WAITS = "echo up $MUSTER_GENERATION $MUSTER_RANK $MUSTER_SIZE $MUSTER_HOSTNAME; exec sleep 1000"


def ranks_of(result, generation):
    """The hosts of a generation's ranks, by rank."""
    found = re.findall(rf"^\[(\d+)\]<stdout>:up {generation} (\d+) (\d+) (\S+)$", result.stdout, re.M)
    assert found and all(label == rank and size == found[0][2] for label, rank, size, _ in found), result
    return [host for _, _, _, host in sorted(found, key=lambda each: int(each[1]))]


def generation_line(result, number):
    found = re.search(rf"^hvdrun: generation {number}: .*$", result.stderr, re.M)
    assert found, result
    return found[0]


@pytest.mark.parametrize("fault", ["power", "cut"])
def test_a_spare_takes_over_from_a_lost_host(hvdrun, cluster, no_leftovers, fault):
    job = Watched(hvdrun, cluster, ["-np", "4", "-H", "n1:2,n2:2", "--spares", "n3", "--on-failure", "replace",
                                    "-x", "MARK=spare-takes-over", "sh", "-c", LATER_WELL])
    job.out.wait_for("up 0", 4)
    begin = time.monotonic()
    if fault == "power":
        cluster.kill_host("n2")
    else:
        cluster.cut("n2", "drop")
    job.out.wait_for("up 1", 4, timeout=LEASE + PATIENCE)
    taken = time.monotonic() - begin
    result = job.end()
    assert result.rc == 0, result
    assert ranks_of(result, 0) == ["n1", "n1", "n2", "n2"], result
    assert ranks_of(result, 1) == ["n1", "n1", "n3", "n3"], result  # ranks of n1 keep their numbers
    assert "4 → 4 ranks, n3 joined, n2 lost (not heard of for 15 s (its lease))," in generation_line(result, 1), result
    assert re.search(r"^hvdrun: generation 1 runs, \d+\.\d\d s after the failure$", result.stderr, re.M), result
    assert taken < LEASE + 10, result
    if fault == "cut":
        cluster.heal("n2")
    testing.eventually(lambda: not testing.strays(cluster, "spare-takes-over", ["n1", "n3"]), PATIENCE)


def test_a_killed_agent_is_a_lost_host(hvdrun, cluster, no_leftovers):
    job = Watched(hvdrun, cluster, ["-np", "4", "-H", "n1:2,n2:2", "--spares", "n3:2,n4:2", "--on-failure", "replace",
                                    "sh", "-c", LATER_WELL])
    job.out.wait_for("up 0", 4)
    agents = [process for process in cluster.processes("n1") if re.search(r"/muster/\.?agent-", "".join(process.argv[:1]))]
    assert agents  # on first contact, the file has a temporary name with a dot
    for process in agents:
        with contextlib.suppress(ProcessLookupError):  # the one before may have taken it along
            os.kill(process.pid, signal.SIGKILL)
    result = job.end()
    assert result.rc == 0, result
    assert ranks_of(result, 1) == ["n3", "n3", "n2", "n2"], result
    assert "n3 joined, n1 lost" in generation_line(result, 1), result


def test_a_host_that_is_down_at_the_start_is_replaced(hvdrun, cluster, no_leftovers):
    cluster.cut("n2", "drop")
    result = hvdrun(["-np", "4", "-H", "n1:2,n2:2", "--spares", "n3", "--start-timeout", "5", "sh", "-c",
                     "echo up $MUSTER_GENERATION $MUSTER_RANK $MUSTER_SIZE $MUSTER_HOSTNAME"], timeout=90)
    assert result.rc == 0, result
    assert ranks_of(result, 1) == ["n1", "n1", "n3", "n3"], result


def test_a_spare_that_is_down_is_passed_over(hvdrun, cluster, no_leftovers):
    cluster.cut("n2", "drop")
    cluster.cut("n3", "drop")
    result = hvdrun(["-np", "4", "-H", "n1:2,n2:2", "--spares", "n3,n4", "--start-timeout", "5", "sh", "-c",
                     "echo up $MUSTER_GENERATION $MUSTER_RANK $MUSTER_SIZE $MUSTER_HOSTNAME"], timeout=90)
    assert result.rc == 0, result
    assert ranks_of(result, 2) == ["n1", "n1", "n4", "n4"], result


def test_without_a_spare_the_job_ends_and_says_what_to_do(hvdrun, cluster, no_leftovers):
    cluster.cut("n2", "drop")
    result = hvdrun(["-np", "4", "-H", "n1:2,n2:2", "--on-failure", "replace", "--start-timeout", "5", "true"],
                    timeout=90)
    assert result.rc == 125, result
    assert "n2 failed and no spare host is left: give more by --spares" in result.stderr, result


def test_shrink_goes_on_with_fewer_ranks_down_to_min_np(hvdrun, cluster, no_leftovers):
    job = Watched(hvdrun, cluster, ["-np", "6", "-H", "n1:2,n2:2,n3:2", "--on-failure", "shrink", "--min-np", "4",
                                    "sh", "-c", ALWAYS_WAITS])
    job.out.wait_for("up 0", 6)
    cluster.kill_host("n2")
    job.out.wait_for("up 1", 4, timeout=LEASE + PATIENCE)
    cluster.kill_host("n1")
    result = job.end(LEASE + PATIENCE)
    assert result.rc == 125, result
    assert ranks_of(result, 1) == ["n1", "n1", "n3", "n3"], result
    assert "6 → 4 ranks, n2 lost" in generation_line(result, 1), result
    assert "2 of at least 4 ranks (--min-np) could go on" in result.stderr, result
    assert "n2: not reachable" in result.stderr, result  # the end of the job names what an earlier generation left


def test_a_host_that_fails_twice_in_a_row_is_replaced(hvdrun, cluster, no_leftovers):
    program = ("echo up $MUSTER_GENERATION $MUSTER_RANK $MUSTER_SIZE $MUSTER_HOSTNAME; "
               "[ $MUSTER_HOSTNAME != n2 ] || exit 7; [ $MUSTER_GENERATION = 2 ] || exec sleep 1000")
    result = hvdrun(["-np", "2", "-H", "n1:1,n2:1", "--spares", "n3", "--on-failure", "replace", "sh", "-c", program])
    assert result.rc == 0, result
    assert [ranks_of(result, generation)[-1] for generation in (0, 1, 2)] == ["n2", "n2", "n3"], result
    assert "hvdrun: restart 1 of 3" in result.stderr, result
    assert "rank 1 on n2 failed twice in a row: exit code 7" in generation_line(result, 2), result


def test_restarts_are_counted_for_hvdrun_too(hvdrun, no_leftovers):
    result = hvdrun(["-np", "2", "-H", "n1,n2", "--max-restarts", "2", "sh", "-c", "exit 4"])
    assert result.rc == 4, result
    assert "restart 2 of 2" in result.stderr and "2 of 2 restarts are used up (--max-restarts)" in result.stderr, result


# Rank 0 reports the end of init() to its agent. Rank 1 has the same agent, and dies after rank 0 has left init().
COLLECTIVE = """
import os, signal
import numpy as np
import muster.numpy as hvd
hvd.init()
for _ in range(3):
    assert hvd.allreduce(np.ones(1), op=hvd.Sum)[0] == 4
if os.environ["MUSTER_GENERATION"] != "2" and hvd.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
hvd.shutdown()
hvd.init()
"""


def test_the_first_collective_after_a_restart(hvdrun, cluster, no_leftovers):
    events = cluster.path("head", "/tmp/events.json")
    began = time.monotonic()
    result = hvdrun(["-np", "4", "-H", "n1:2,n2:2", "--max-restarts", "2", "--json-events", "/tmp/events.json", PYTHON,
                     "-c", COLLECTIVE], timeout=90.0)
    assert result.rc == 0, result
    lines = re.findall(r"^hvdrun: generation (\d): first collective after (\d+\.\d\d) s$", result.stderr, re.M)
    assert [generation for generation, _ in lines] == ["1", "2"], result
    assert 0 < sum(float(seconds) for _, seconds in lines) < time.monotonic() - began, result
    told = [json.loads(line).get("first_collective_ended") for line in events.read_text().splitlines()]
    told = [(each["generation"], int(each["elapsed_ms"]) / 1000) for each in told if each]
    assert told == [(int(generation), pytest.approx(float(seconds), abs=0.006)) for generation, seconds in lines]


def test_failures_after_progress_do_not_count(hvdrun, no_leftovers):
    """It gets further three times, then it does not."""
    program = "[ $MUSTER_GENERATION -ge 3 ] || echo epoch $MUSTER_GENERATION; echo up $MUSTER_GENERATION; exit 4"
    result = hvdrun(["-np", "2", "-H", "n1,n2", "--max-restarts", "1", "--progress-text", "epoch", "sh", "-c", program])
    assert result.rc == 4, result
    assert "up 4" in result.stdout and "up 5" not in result.stdout, result
    assert result.stderr.count("it had made progress, so 0 of 1 restarts stay used") == 3, result
    assert "restart 1 of 1" in result.stderr, result


def test_a_changed_file_is_progress(hvdrun, cluster, no_leftovers):
    """A rank of the second host writes it three times, just before the rank fails."""
    program = ("echo up $MUSTER_GENERATION; [ $MUSTER_RANK = 1 ] || exec sleep 1000; "
               "[ $MUSTER_GENERATION -ge 3 ] || echo $MUSTER_GENERATION >> /tmp/muster-test-last; exit 4")
    try:
        result = hvdrun(["-np", "2", "-H", "n1,n2", "--max-restarts", "1", "--wdir", "/tmp",
                         "--progress-file", "muster-test-last", "sh", "-c", program])
    finally:
        for host in cluster.nodes:
            cluster.run(host, "alice", ["rm", "-f", "/tmp/muster-test-last"], check=True)
    assert result.rc == 4, result
    assert "up 4" in result.stdout and "up 5" not in result.stdout, result
    assert result.stderr.count("it had made progress, so 0 of 1 restarts stay used") == 3, result
    assert "restart 1 of 1" in result.stderr, result


def test_a_failed_host_is_a_spare_again_after_its_cooldown(hvdrun, cluster, no_leftovers):
    """n2 fails twice, then n3 does so more than 15 s later."""
    program = ("echo up $MUSTER_GENERATION $MUSTER_RANK $MUSTER_SIZE $MUSTER_HOSTNAME; "
               "[ $MUSTER_RANK = 1 ] || exec sleep 1000; case $MUSTER_GENERATION in "
               "2) sleep 17; exit 7;; 4) exec sleep 1000;; *) exit 7;; esac")
    job = Watched(hvdrun, cluster, ["-np", "2", "-H", "n1,n2", "--spares", "n3", "--max-restarts", "9", "--on-failure",
                                    "replace", "--failed-host-cooldown", "16", "sh", "-c", program])
    job.out.wait_for("up 2", 2)
    text = cluster.run("head", "alice", [BIN_DIR / "muster", "status"], timeout=60).stdout
    assert "failed host: n2: its ranks ended the job twice in a row; may be used again in 1" in text, text
    job.out.wait_for("up 4", 2)
    status = cluster.run("head", "alice", [BIN_DIR / "muster", "status", "--json"], timeout=60).stdout
    assert [host["name"] for host in json.loads(status)["failed_hosts"]] == ["n3"], status
    job.signal(2)
    result = job.end()
    assert [ranks_of(result, generation)[-1] for generation in range(5)] == ["n2", "n2", "n3", "n3", "n2"], result


def test_exit_code_93_is_never_started_again(hvdrun, no_leftovers):
    result = hvdrun(["-np", "2", "-H", "n1,n2", "--spares", "n3", "--max-restarts", "5", "sh", "-c",
                     "echo up; [ $MUSTER_RANK = 0 ] || exit 93; exec sleep 1000"])
    assert result.rc == 93, result
    assert "restart" not in result.stderr and "generation" not in result.stderr, result


def test_interrupt_ends_a_later_generation(hvdrun, cluster, no_leftovers):
    program = f"[ $MUSTER_GENERATION$MUSTER_RANK != 01 ] || exit 5; {ALWAYS_WAITS}"
    job = Watched(hvdrun, cluster, ["-np", "2", "-H", "n1,n2", "--spares", "n3", "sh", "-c", program])
    job.out.wait_for("up 1", 2)
    job.signal(2)
    result = job.end()
    assert result.rc == 130 and "generation 2" not in result.stderr, result


def test_staged_files_reach_the_spare(hvdrun, cluster, no_leftovers):
    cluster.run("head", "alice", ["sh", "-c", "echo data > /home/alice/staged"], check=True)
    cluster.cut("n2", "drop")
    result = hvdrun(["-np", "2", "-H", "n1,n2", "--spares", "n3", "--start-timeout", "5", "--stage",
                     "/home/alice/staged:/home/alice/data/staged", "cat", "/home/alice/data/staged"], timeout=90)
    assert result.rc == 0 and result.stdout.count("data") == 2, result


def test_torchruns_elastic_command_line(hvdrun, cluster, no_leftovers):
    program = ("echo up $MUSTER_GENERATION $RANK $WORLD_SIZE $MUSTER_HOSTNAME; "
               "echo count $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS; "
               "case $MUSTER_GENERATION in 0) exec sleep 1000 ;; 1) [ $RANK != 1 ] || exit 3; exec sleep 1000 ;; esac")
    job = Watched(hvdrun, cluster, argv=["muster", "torchrun", "-H", "n1,n2,n3,n4", "--nnodes=2:3",
                                         "--nproc-per-node=2", "--max-restarts=3", "--no-python", "sh", "-c", program])
    job.out.wait_for("up 0", 6)
    assert "n4" not in job.out.text  # more than MAX hosts: the last one is a spare
    cluster.kill_host("n2")
    result = job.end(LEASE + PATIENCE)
    assert result.rc == 0, result
    assert "6 → 6 ranks, n4 joined, n2 lost" in generation_line(result, 1), result
    assert ranks_of(result, 2) == ["n1", "n1", "n4", "n4", "n3", "n3"], result
    # The loss of the host is free of charge, the failure of a rank is not.
    assert re.search(r"up 1 .*count 0 of 3", result.stdout, re.S) and result.stdout.count("count 1 of 3") == 6, result


def test_torchrun_needs_its_fewest_hosts(hvdrun, cluster, no_leftovers):
    cluster.cut("n2", "drop")
    result = hvdrun([], argv=["muster", "torchrun", "-H", "n1,n2,n3", "--nnodes=3:4", "--start-timeout", "5",
                              "--no-python", "true"], timeout=90)
    assert result.rc == 125 and "2 of at least 3 hosts are left" in result.stderr, result


def test_misspelt_policies_are_named(hvdrun):
    result = hvdrun(["-np", "2", "--on-failure", "shirnk", "true"])
    assert result.rc == 2 and "shrink" in result.stderr, result
    result = hvdrun(["-np", "2", "--spares", "n1;n2", "true"])
    assert result.rc == 2 and "--spares must be a number" in result.stderr, result
    result = hvdrun(["--on-failure", "replace", "-np", "1", "true", ":", "-np", "1", "true"])
    assert result.rc == 2 and "a job of several programs keeps its hosts" in result.stderr, result
