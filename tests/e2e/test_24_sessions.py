"""What ranks are told of each other: keys, and how others have ended (docs/rendezvous-protocol.md)."""

import signal
import time

import pytest
from conftest import BIN_DIR
from console import Watched

RANK = str(BIN_DIR.parent / "tests/programs/session_rank")
HOSTS = ["-np", "4", "-H", "n1:2,n2:2"]


def told(job, rank, of):
    """(when in ms, "failed" or "ended", cause) of what `rank` was told of rank `of`."""
    when, how, cause = job.out.wait_for(rf"\[{rank}\]<stdout>:(\d+) rank {of} (failed|ended): (.*)")[0].groups()
    return int(when), how, cause


def pids(job, count=1):
    """Of each rank's last process, once all four have met `count` times."""
    job.out.wait_for(r"<stdout>:pid \d+", count=4 * count)
    return {rank: int(job.out.wait_for(rf"\[{rank}\]<stdout>:pid (\d+)", count=count)[-1].group(1))
            for rank in range(4)}


@pytest.fixture
def start(hvdrun, cluster, no_leftovers):
    def call(command, *options):
        return Watched(hvdrun, cluster, [*HOSTS, *options, *command])
    return call


def stop(job):
    job.signal(signal.SIGINT)
    return job.end()


def test_all_others_are_told_who_was_killed_within_a_second(start, cluster):
    job = start([RANK], "--keep-going")
    pid = pids(job)[1]
    killed_at = time.time() * 1000
    cluster.run("n1", "alice", ["kill", "-9", str(pid)], check=True)
    for rank in (0, 2, 3):
        when, how, cause = told(job, rank, 1)
        assert (how, cause) == ("failed", "was killed by signal 9 (SIGKILL)")
        assert when - killed_at < 1000
    assert stop(job).rc == 130
    assert "[1]<stdout>:pid" in job.out.text and "lost:" not in job.out.text


def test_news_comes_before_the_stop(start):
    script = f"""trap "" TERM; if [ $RANK = 2 ]; then exec {RANK} 3; else exec {RANK}; fi"""
    job = start(["sh", "-c", script], "--kill-grace", "1")
    for rank in (0, 1, 3):
        assert told(job, rank, 2)[1:] == ("failed", "exited with 3")
    assert job.end().rc == 3


def test_a_rank_that_ends_well_is_no_failure(start):
    job = start(["sh", "-c", f"if [ $RANK = 3 ]; then exec {RANK} 0; else exec {RANK}; fi"])
    for rank in (0, 1, 2):
        assert told(job, rank, 3)[1:] == ("ended", "exited with 0")
    assert stop(job).rc == 130


def test_a_program_may_meet_again(start):
    job = start(["sh", "-c", f"{RANK} 0 && exec {RANK}"])
    pids(job, count=2)
    assert stop(job).rc == 130


def test_ranks_are_told_of_a_lost_host(hvdrun, cluster):
    job = Watched(hvdrun, cluster, [*HOSTS, "sh", "-c", f"trap '' TERM; exec {RANK}"])
    pids(job)
    cluster.kill_host("n2")
    for rank in (0, 1):
        for lost in (2, 3):
            assert told(job, rank, lost)[1:] == ("failed", "was lost with its host n2")
    assert job.end().rc == 125
