"""Several steps in one allocation: --nodes, --spare and --health-check, --signal, muster ensemble."""

import json
import re
import signal
import time

import pytest
from conftest import BIN_DIR
from console import Watched

MUSTER = str(BIN_DIR / "muster")
SAY_HOST = ["sh", "-c", "echo on $MUSTER_HOSTNAME"]


def hosts_said(result):
    return sorted(re.findall(r"<stdout>:on (\S+)", result.stdout))


@pytest.fixture
def folder(cluster):
    """A folder of alice's on head, as (path there, path here)."""
    there = cluster.run("head", "alice", ["mktemp", "-d"], check=True).stdout.strip()
    yield there, cluster.path("head", there)
    cluster.run("head", "alice", ["rm", "-r", there], check=True)


@pytest.fixture
def muster(hvdrun):
    """muster(args...) on head as alice -> a running Command."""
    return lambda *args, **options: hvdrun.start([], argv=[MUSTER, *map(str, args)], **options)


# --- parts of an allocation

def test_two_steps_side_by_side(hvdrun, cluster, no_leftovers):
    environment = {"SLURM_JOB_NODELIST": "n[1-4]"}
    steps = [hvdrun.start(["--nodes", numbers, *SAY_HOST], env=environment) for numbers in ("0-1", "2,3")]
    results = [hvdrun.finish(step) for step in steps]
    assert [(result.rc, hosts_said(result)) for result in results] == [(0, ["n1", "n2"]), (0, ["n3", "n4"])], results


def test_a_number_too_high_is_told(hvdrun):
    result = hvdrun(["-H", "n1,n2", "--nodes", "1-2", "true"])
    assert result.rc == 2 and "no host has the number 2: the 2 hosts are numbered from 0 to 1" in result.stderr, result


# --- spare hosts

def test_a_spare_replaces_a_host_that_is_down(hvdrun, cluster, no_leftovers):
    cluster.kill_host("n2")
    result = hvdrun(["-H", "n1,n2,n3,n4", "--spare", "1", "--start-timeout", "5", *SAY_HOST], timeout=90)
    assert (result.rc, hosts_said(result)) == (0, ["n1", "n3", "n4"]), result
    assert "hvdrun: n2 is left out: " in result.stderr, result


def test_all_well_leaves_the_last_one_out(hvdrun, no_leftovers):
    result = hvdrun(["-H", "n1,n2,n3", "--spare", "1", *SAY_HOST])
    assert (result.rc, hosts_said(result)) == (0, ["n1", "n2"]), result
    assert "hvdrun: n3 is spare\n" in result.stderr, result


def test_too_few_are_well(hvdrun, cluster, no_leftovers):
    cluster.kill_host("n2")
    result = hvdrun(["-H", "n1,n2", "--health-check", "quick", "--start-timeout", "5", *SAY_HOST], timeout=90)
    assert result.rc == 125 and result.stdout == "", result
    assert "1 of the 2 needed hosts are healthy; n2: " in result.stderr, result


def test_a_full_health_check_computes_on_the_hosts(hvdrun, no_leftovers):
    for _ in range(5):  # the hosts are one machine, whose other work may slow one of them down all the time it is measured
        result = hvdrun(["-H", "n1,n2", "--health-check", "full", *SAY_HOST])
        if "slow: rank" not in result.stderr:
            break
    assert (result.rc, hosts_said(result)) == (0, ["n1", "n2"]), result
    assert result.stderr == "", result


# --- before the time is over

def test_a_signal_before_the_time_is_over(hvdrun, no_leftovers):
    program = "trap 'echo told; exit 0' USR1; echo up; while :; do sleep 0.05; done"
    result = hvdrun(["-np", "4", "-H", "n1:2,n2:2", "--timeout", "30s", "--signal", "USR1@28", "sh", "-c", program])
    assert result.rc == 0 and result.stdout.count("told") == 4, result
    assert "hvdrun: SIGUSR1 to all ranks: the job's time is over in at most 28 s\n" in result.stderr, result


def test_the_schedulers_end_counts(hvdrun, folder, no_leftovers):
    there, here = folder
    (here / "squeue").write_text("#!/bin/sh\necho 0:40\n")
    (here / "squeue").chmod(0o755)
    program = "trap 'echo told; exit 0' USR1; echo up; while :; do sleep 0.05; done"
    result = hvdrun(["-H", "n1", "--signal", "USR1@39", "sh", "-c", program],
                    env={"SLURM_JOB_ID": "7", "PATH": f"{there}:/usr/bin:/bin"})
    assert result.rc == 0 and "told" in result.stdout, result


def test_without_a_limit_no_signal_and_a_line(hvdrun, no_leftovers):
    result = hvdrun(["-H", "n1", "--signal", "USR1@5", "true"])
    assert result.rc == 0 and "the job has no known time limit" in result.stderr, result


# --- ensembles

SWEEP = """
defaults: {np: 2}
jobs:
  - name: lr-{lr}-{seed}
    sweep: {lr: [0.1, 0.01], seed: 0-4}
    env: {SEED: "{seed}"}
    command: [sh, -c, "echo $SEED {lr} on $MUSTER_HOSTNAME; test $SEED != 3"]
"""


def test_an_ensemble_runs_all_and_keeps_their_output(muster, hvdrun, cluster, folder, no_leftovers):
    there, here = folder
    (here / "sweep.yaml").write_text(SWEEP)
    result = hvdrun.finish(muster("ensemble", "-H", "n1:2,n2:2", "--output", f"{there}/out", f"{there}/sweep.yaml"))
    assert result.rc == 1, result
    assert "muster ensemble: 8 of 10 jobs succeeded" in result.stderr, result
    assert re.search(r"lr-0.01-3 failed with exit code 1: rank \d on n\d: exit code 1\n", result.stderr), result
    assert sorted(each.name for each in (here / "out").iterdir()) == sorted(
        f"lr-{lr}-{seed}" for lr in ("0.1", "0.01") for seed in range(5))
    hosts = set()
    for job in (here / "out").iterdir():
        lr, seed = job.name.removeprefix("lr-").rsplit("-", 1)
        said = [(job / f"rank.{rank}" / "stdout").read_text() for rank in (0, 1)]
        if seed == "3":  # the first rank that fails may end the other before its first word
            said = [text for text in said if text][:1]
        for text in said:
            assert text.startswith(f"{seed} {lr} on n"), (job.name, said)
            hosts.add(text.split()[-1])
        assert said
    assert hosts == {"n1", "n2"}
    assert not list(cluster.path("head", "/tmp").glob("muster-*/ensemble-*"))


def test_a_failure_ends_the_others_if_asked(muster, hvdrun, folder, no_leftovers):
    there, here = folder
    (here / "e.yaml").write_text("jobs:\n- {name: bad, command: [sh, -c, exit 4]}\n"
                                 "- {name: 'long-{i}', sweep: {i: 0-3}, command: [sleep, '1000']}\n")
    result = hvdrun.finish(muster("ensemble", "-H", "n1:2", "--fail-fast", "--json", "--output", f"{there}/out",
                                  f"{there}/e.yaml"))
    assert result.rc == 1, result
    ends = [json.loads(line) for line in result.stdout.splitlines()]
    assert {end["name"]: end["state"] for end in ends} == {
        "bad": "JOB_STATE_FAILED", **{f"long-{i}": "JOB_STATE_KILLED" for i in range(4)}}


@pytest.mark.parametrize("signo, rc", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_an_ensemble_that_is_ended_leaves_nothing(muster, hvdrun, cluster, folder, signo, rc, no_leftovers):
    there, here = folder
    (here / "e.yaml").write_text("jobs:\n- {name: 'j{i}', sweep: {i: 0-3}, np: 2, command: [sleep, '1000']}\n")
    (here / "short.yaml").write_text("jobs: [{name: a, command: ['true']}]")
    running = Watched(hvdrun, cluster, argv=[MUSTER, "ensemble", "-H", "n1:2,n2:2", f"{there}/e.yaml"], args=[])
    running.err.wait_for("serving unix:")
    address = re.search(r"serving (unix:\S+)", running.err.text).group(1)
    while True:  # each answer takes its time
        jobs = cluster.run("head", "alice", [MUSTER, "jobs", "--launcher", address, "--json"], timeout=30).stdout
        states = [json.loads(line)["state"] for line in jobs.splitlines()]
        if states.count("JOB_STATE_RUNNING") == 2:
            break
    running.signal(signo)
    assert running.end().rc == rc
    if signo == signal.SIGKILL:  # agents wait for their lease; the folder goes with the next ensemble
        for host in ("n1", "n2"):
            while cluster.run(host, "alice", ["pgrep", "-u", "alice", "-f", "muster/agent-"]).returncode == 0:
                assert time.monotonic() - running.began < 90
        assert hvdrun.finish(muster("ensemble", "-H", "n1", "--output", f"{there}/out", f"{there}/short.yaml")).rc == 0
    assert not list(cluster.path("head", "/tmp").glob("muster-*/ensemble-*"))


def test_mistakes_name_their_place(muster, hvdrun, folder):
    there, here = folder
    for content, expected in (("jobs:\n- {nmae: a}\n", "e.yaml:2:4: unknown key 'nmae' in a job; did you mean name?"),
                              ("jobs:\n- {name: a, np: x, command: [p]}\n", "e.yaml:2:3: job a: "),
                              ("jobs:\n- {name: a, np: 9, command: [p]}\n", "job a: ")):
        (here / "e.yaml").write_text(content)
        result = hvdrun.finish(muster("ensemble", "-H", "n1:2", f"{there}/e.yaml"))
        assert result.rc == 2 and expected in result.stderr, (content, result)
