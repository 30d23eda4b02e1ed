"""Hosts that are down, late or misspelt: what hvdrun says of them, and --min-hosts, which starts without them."""

import json
import re
import signal
import time

import pytest
from conftest import BIN_DIR
from console import Watched

MUSTER = str(BIN_DIR / "muster")
SAY_HOST = ["sh", "-c", "echo on $MUSTER_HOSTNAME as $MUSTER_RANK of $MUSTER_SIZE"]


def said(result):
    """[(rank, size, host)] of the ranks."""
    return sorted((int(rank), int(size), host)
                  for host, rank, size in re.findall(r"<stdout>:on (\S+) as (\d+) of (\d+)", result.stdout))


# --- without --min-hosts

def test_a_host_that_is_down_ends_the_start(hvdrun, cluster, no_leftovers):
    cluster.kill_host("n2")
    result = hvdrun(["-H", "n1:1,n2:1,n3:1", "--start-timeout", "5", *SAY_HOST], timeout=90)
    assert result.rc == 125 and result.stdout == "", result
    assert "host n2: " in result.stderr and "not started" in result.stderr, result


def test_late_hosts_are_named_with_their_reason(hvdrun, cluster, no_leftovers):
    for host in ("n2", "n3", "n4"):
        cluster.cut(host, "drop")
    result = hvdrun(["-H", "n[1-4]:1", "--start-timeout", "3", *SAY_HOST], timeout=90)
    assert result.rc == 125, result
    assert re.search(r"hvdrun: 3 hosts n\[2-4\]: no answer on port 22 in time", result.stderr), result


def test_a_typo_in_a_name(hvdrun, no_leftovers):
    result = hvdrun(["-H", "n1:1,n22:1", *SAY_HOST], timeout=90)
    assert result.rc == 125 and "host n22: cannot resolve the name" in result.stderr, result


# --- with --min-hosts

def test_starts_without_a_host_that_is_down(hvdrun, cluster, no_leftovers):
    cluster.kill_host("n2")
    result = hvdrun(["-H", "n1:2,n2:2,n3:2", "--min-hosts", "2", "--start-timeout", "5", *SAY_HOST], timeout=90)
    assert result.rc == 0, result
    assert said(result) == [(0, 4, "n1"), (1, 4, "n1"), (2, 4, "n3"), (3, 4, "n3")], result
    assert "hvdrun: 1 host is not up, so the job starts without it: n2: " in result.stderr, result
    assert "hvdrun: the job starts with 4 ranks on 2 hosts\n" in result.stderr, result


def test_a_typo_does_not_wait_for_the_time_limit(hvdrun, no_leftovers):
    result = hvdrun(["-H", "n1:1,n22:1,n3:1", "--min-hosts", "2", "--start-timeout", "50", *SAY_HOST], timeout=90)
    assert result.rc == 0 and said(result) == [(0, 2, "n1"), (1, 2, "n3")], result
    assert "n22: cannot resolve the name" in result.stderr, result
    assert result.elapsed < 30, result


def test_a_host_that_is_late_is_waited_for_and_left_out(hvdrun, cluster, no_leftovers):
    cluster.cut("n3", "drop")
    result = hvdrun(["-H", "n1:1,n2:1,n3:1", "--min-hosts", "2", "--start-timeout", "4", *SAY_HOST], timeout=90)
    assert result.rc == 0 and said(result) == [(0, 2, "n1"), (1, 2, "n2")], result
    assert "so the job starts without it: n3: no answer on port 22 in time" in result.stderr, result
    assert result.elapsed > 3.5, result


def test_a_host_whose_sshd_does_not_answer(hvdrun, cluster, no_leftovers):
    cluster.run("n2", "root", ["sh", "-c", "kill -STOP $(cat /run/sshd.pid)"], check=True)
    try:
        result = hvdrun(["-H", "n1:1,n2:1", "--min-hosts", "1", "--start-timeout", "4", *SAY_HOST], timeout=90)
    finally:
        cluster.run("n2", "root", ["sh", "-c", "kill -CONT $(cat /run/sshd.pid)"], check=True)
    assert result.rc == 0 and said(result) == [(0, 1, "n1")], result
    assert re.search(r"so the job starts without it: n2: \S.* (4 s|in time)", result.stderr), result


def test_a_host_that_comes_in_time_is_used(hvdrun, cluster, no_leftovers):
    cluster.cut("n3", "drop")
    job = Watched(hvdrun, cluster, ["-H", "n1:1,n2:1,n3:1", "--min-hosts", "2", "--start-timeout", "40", *SAY_HOST], terminal=True)
    job.out.wait_for(r"2 of 3 hosts are up; waiting for n3")
    cluster.heal("n3")
    result = job.end()
    assert result.rc == 0 and [host for _, _, host in said(result)] == ["n1", "n2", "n3"], result


def test_ranks_of_np_must_fit(hvdrun, cluster, no_leftovers):
    cluster.cut("n3", "reset")
    result = hvdrun(["-np", "6", "-H", "n1:2,n2:2,n3:2", "--min-hosts", "2", "--start-timeout", "5", *SAY_HOST], timeout=90)
    assert result.rc == 125 and result.stdout == "", result
    assert "-np 6 needs 6 slots, but the 2 hosts that are up have 4; leave -np out" in result.stderr, result


def test_too_few_hosts(hvdrun, cluster, no_leftovers):
    for host in ("n2", "n3"):
        cluster.cut(host, "reset")
    result = hvdrun(["-H", "n1:1,n2:1,n3:1", "--min-hosts", "2", "--start-timeout", "20", *SAY_HOST], timeout=90)
    assert result.rc == 125 and result.stdout == "", result
    assert "1 of 3 hosts are up, fewer than --min-hosts 2; " in result.stderr, result


def test_spares_that_are_up_take_the_places(hvdrun, cluster, no_leftovers):
    """n1 would have rank 0, so all that others need of its host must come from n4."""
    cluster.cut("n1", "drop")
    result = hvdrun(["-H", "n1:2,n2:2", "--spares", "n3:2,n4:2", "--min-hosts", "2", "--start-timeout", "4",
                     *SAY_HOST], timeout=90)
    assert result.rc == 0, result
    assert said(result) == [(0, 4, "n3"), (1, 4, "n3"), (2, 4, "n2"), (3, 4, "n2")], result
    assert "hvdrun: n3 takes the place of hosts that are not up\n" in result.stderr, result


def test_ctrl_c_while_hosts_are_late(hvdrun, cluster, no_leftovers):
    cluster.cut("n2", "drop")
    job = Watched(hvdrun, cluster, ["-H", "n1:1,n2:1", "--min-hosts", "1", "--start-timeout", "50", *SAY_HOST], terminal=True)
    job.out.wait_for(r"1 of 2 hosts are up; waiting for n2")
    begin = time.monotonic()
    job.signal(signal.SIGINT)
    result = job.end()
    assert result.rc == 130 and time.monotonic() - begin < 20, result


def test_events_have_the_reasons_and_the_new_ranks(hvdrun, cluster, no_leftovers):
    file = cluster.run("head", "alice", ["mktemp"], check=True).stdout.strip()
    cluster.cut("n2", "reset")
    result = hvdrun(["-H", "n1:1,n2:1,n3:1", "--min-hosts", "2", "--start-timeout", "20", "--json-events", file, *SAY_HOST],
                    timeout=90)
    assert result.rc == 0, result
    events = [json.loads(line) for line in cluster.run("head", "alice", ["cat", file], check=True).stdout.splitlines()]
    out = [event["hosts_left_out"] for event in events if "hosts_left_out" in event]
    assert out and out[0]["hosts"] == ["n2"] and len(out[0]["reasons"]) == 1, events
    sizes = [event["job_starting"]["placement"]["size"] for event in events if "job_starting" in event]
    assert sizes == [3, 2], events
    cluster.run("head", "alice", ["rm", file], check=True)


@pytest.mark.parametrize("arguments, why", [
    (["-H", "n1,n2", "--min-hosts", "3"], "--min-hosts 3: the job has only 2 hosts"),
    (["-H", "n1,n2", "--min-hosts", "1", "--min-np", "1"], "--min-hosts: a job whose ranks live on"),
    (["-np", "1", "-H", "n1", "--min-hosts", "1", "true", ":", "-np", "1"], "--min-hosts: a job of several programs"),
    (["-H", "n1,n2", "--min-hosts", "0"], "--min-hosts must be a number from 1"),
])
def test_refused(hvdrun, arguments, why):
    result = hvdrun([*arguments, "true"])
    assert result.rc == 2 and why in result.stderr, result


def test_launcherd_refuses_it_by_name(hvdrun):
    result = hvdrun([], argv=[MUSTER, "submit", "-np", "1", "--min-hosts", "1", "true"])
    assert result.rc == 2 and "--min-hosts: launcherd's queue gives a job its hosts" in result.stderr, result
