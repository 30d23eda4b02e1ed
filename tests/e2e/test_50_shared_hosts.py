"""Jobs beside each other on the hosts of one launcherd: none has the GPUs and cores of another one.  The GPUs are those of
the emulated library of test_46_nvml."""

import json
import os
import re
import signal

import pytest
from cluster import testing
from console import PYTHON
from launcherd_user import Launcherd
from test_22_launcherd_dies import agent_on
from test_32_pinning import CORES
from test_36_allocations import muster  # noqa: F401 (a fixture)
from test_46_nvml import gpu, nvml, say  # noqa: F401 (a fixture)
from test_58_launcherd_elastic import until, used
from test_64_launcherd_live import TRAIN, ranks_of

HOLD = ["sh", "-c", 'echo "has $CUDA_VISIBLE_DEVICES"; exec sleep 1000']


@pytest.fixture
def four_gpus(cluster, nvml):  # noqa: F811
    say(cluster, "n1", "".join(gpu(number, "n1") for number in range(4)))


@pytest.fixture
def launcherd(hvdrun, cluster, four_gpus):
    daemons = []

    def make(hosts, *args):
        daemons.append(Launcherd(hvdrun, cluster, *args, hosts=hosts))
        return daemons[-1]

    yield make
    for daemon in daemons:
        for job in map(json.loads, daemon.asked("jobs", "--json").splitlines()):
            daemon.asked("kill", job["id"])
            daemon.muster("wait", job["id"])
        daemon.close()


def running(daemon, *args):
    """A job that has been started, and what its rank has seen."""
    job = daemon.submit(*args, *HOLD)
    return job, seen_by(daemon, job)


def seen_by(daemon, job):
    logs = daemon.watch("logs", "-f", job)
    logs.out.wait_for(r"has .*\n")
    logs.signal(signal.SIGTERM)
    logs.end()
    return re.findall(r"has (.*)", logs.out.text)[0]


def binding(daemon, job):
    return daemon.job(job)["ranks"][0]["binding"]


def test_two_jobs_have_different_gpus_and_cores(no_leftovers, launcherd):
    daemon = launcherd("n1:2")
    first, its = running(daemon, "-np", "1", "--gpu-bind", "one")
    second, others = running(daemon, "-np", "1", "--gpu-bind", "one")
    assert {its, others} == {"GPU-n1-0", "GPU-n1-1"}
    told = [binding(daemon, first), binding(daemon, second)]
    assert [each["devices"] for each in told] == [[its], [others]] and told[0]["gpus"] != told[1]["gpus"], told
    if len(CORES) >= 2:
        assert told[0]["cpus"] and told[1]["cpus"] and told[0]["cpus"] != told[1]["cpus"], told
    table = daemon.asked("status", second)
    assert re.search(r"rank +host +pid +gpu +cores +state\n +0 +n1 +\d+ +1 ", table), table
    # Given back, also after a start that failed.
    daemon.asked("kill", first)
    daemon.muster("wait", first)
    failed = daemon.submit("-np", "1", "--gpu-bind", "one", "/nowhere")
    daemon.muster("wait", failed)
    assert running(daemon, "-np", "1", "--gpu-bind", "one")[1] == its


def test_whoever_asks_for_more_than_is_free_waits(no_leftovers, launcherd):
    daemon = launcherd("n1:4")
    large, its = running(daemon, "-np", "1", "--gpus-per-rank", "3", "--gpu-bind", "one")
    assert len(its.split(",")) == 3
    waits = daemon.submit("-np", "1", "--gpus-per-rank", "2", "--gpu-bind", "one", *HOLD)
    assert daemon.job(waits)["state"] == "JOB_STATE_QUEUED"
    assert daemon.job(waits)["reason"] == "needs 2 GPUs, 1 is free on n1"
    assert "reason: needs 2 GPUs, 1 is free on n1" in daemon.asked("status", waits)
    refused = daemon.muster("submit", "-np", "1", "--gpus-per-rank", "5", "true")
    assert refused.returncode == 2 and "--gpus-per-rank 5: ranks may use only 4 GPUs on that host" in refused.stderr, refused
    none = running(daemon, "-np", "1", "--gpu-bind", "none")
    assert none[1] == ""
    daemon.asked("kill", large)
    assert len(seen_by(daemon, waits).split(",")) == 2
    assert len(binding(daemon, waits)["devices"]) == 2


@pytest.mark.parametrize("gpu_bind", ["one", "order"])
def test_ranks_that_join_get_gpus_that_no_other_rank_has(no_leftovers, launcherd, gpu_bind):
    daemon = launcherd("n1:4")

    def bindings(job):
        return [rank["binding"] for rank in daemon.job(job)["ranks"]]

    first, its = running(daemon, "-np", "1", "--gpu-bind", "one")
    live = daemon.submit("--min-np", "1", "--max-np", "4", "-np", "1", "--gpu-bind", gpu_bind, PYTHON, "-c", TRAIN)
    before, = ranks_of(daemon, live, 1)
    old, = bindings(live)
    assert old["devices"] != [its]
    daemon.asked("kill", first)
    daemon.muster("wait", first)
    daemon.asked("resize", live, "=2")
    after = ranks_of(daemon, live, 2)
    assert after[0] == before
    kept, new = bindings(live)
    assert kept == old and new["devices"] and new["devices"] != old["devices"], (old, kept, new)
    if len(CORES) >= 4:  # else there are more slots than cores, and nobody is bound
        assert new["cpus"] != old["cpus"], (old, new)
    daemon.asked("resize", live, "=1")
    until(lambda: used(daemon) == {"n1": 1})
    assert bindings(live) == [old]
    _, others = running(daemon, "-np", "1", "--gpus-per-rank", "3", "--gpu-bind", "one")
    assert not {*others.split(",")} & {*old["devices"]}


def test_the_next_launcherd_knows_what_is_taken(no_leftovers, launcherd):
    daemon = launcherd("n1:4")
    held = [running(daemon, "-np", "1", "--gpu-bind", "one") for _ in range(2)]
    cores = [binding(daemon, job)["cpus"] for job, _ in held]
    daemon.die()
    daemon.come_back()
    job, its = running(daemon, "-np", "1", "--gpu-bind", "one")
    assert its not in [gpus for _, gpus in held]
    assert [binding(daemon, each)["devices"] for each, _ in held] == [[gpus] for _, gpus in held]
    if len(CORES) >= 4:  # else there are more slots than cores, and nobody is bound
        assert len({*cores, binding(daemon, job)["cpus"]}) == 3


def test_an_ensemble_uses_all_gpus(no_leftovers, muster, hvdrun, cluster, four_gpus):
    # Each waits until it sees that four are there.
    program = 'touch "$0/at-$JOB"; until test $(ls $0 | grep -c ^at-) = 4; do sleep 0.05; done; echo $CUDA_VISIBLE_DEVICES'
    sweep = {"jobs": [{"name": "job-{n}", "np": 1, "sweep": {"n": "0-3"}, "env": {"JOB": "{n}"},
                       "command": ["sh", "-c", program, "/tmp/shared-hosts"]}]}
    there = "/home/alice/shared-hosts"
    cluster.run("head", "alice", ["mkdir", there], check=True)
    cluster.run("n1", "alice", ["mkdir", "/tmp/shared-hosts"], check=True)
    try:
        cluster.path("head", f"{there}/sweep.yaml").write_text(json.dumps(sweep))
        result = hvdrun.finish(muster("ensemble", "-H", "n1:4", "--output", f"{there}/out", f"{there}/sweep.yaml"))
        assert result.rc == 0, result
        said = [(cluster.path("head", f"{there}/out/job-{n}/rank.0/stdout")).read_text().strip() for n in range(4)]
        assert sorted(said) == [f"GPU-n1-{n}" for n in range(4)], said
    finally:
        cluster.run("head", "alice", ["rm", "-rf", there], check=True)
        cluster.run("n1", "alice", ["rm", "-rf", "/tmp/shared-hosts"], check=True)


def test_hvdrun_reports_bindings(no_leftovers, hvdrun, four_gpus):
    result = hvdrun(["-np", "2", "-H", "n1:2", "--gpu-bind", "one", "--report-bindings", "true"])
    assert result.rc == 0, result
    lines = [line for line in result.stderr.splitlines() if line.startswith("hvdrun: rank ")]
    assert len(lines) == 2, result
    assert re.fullmatch(r"hvdrun: rank 1 on n1, local rank 1: (cores [\d,-]+|not bound to cores), GPU \d \(GPU-n1-\d\)",
                        lines[1]), lines


def test_two_names_of_one_host(no_leftovers, launcherd):
    daemon = launcherd("n1:2,n1-v6:2")
    for _ in range(2):  # the second when both are known
        job = daemon.submit("-np", "4", "--gpu-bind", "one", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        assert daemon.muster("wait", job).returncode == 0, daemon.job(job)
        assert sorted(re.findall(r"GPU-n1-\d", daemon.asked("logs", job))) == [f"GPU-n1-{n}" for n in range(4)]
    seen = [running(daemon, "-np", "1", "-H", name, "--gpu-bind", "one")[1] for name in ("n1", "n1-v6", "n1-v6", "n1")]
    assert sorted(seen) == [f"GPU-n1-{n}" for n in range(4)]


def test_a_host_that_turns_out_to_be_another_one(no_leftovers, launcherd):
    """What it is, is known when its agent is there; until the other job has ended, it has no GPU to spare."""
    daemon = launcherd("n1:2,n1-v6:2")
    all_of_it, its = running(daemon, "-np", "2", "-H", "n1")
    assert len(its.split(",")) == 4
    waits = daemon.submit("-np", "1", "-H", "n1-v6", *HOLD)
    why = "n1-v6: 0 of 4 GPUs are free there: other jobs use them"
    assert testing.eventually(lambda: daemon.job(waits).get("reason") == why, 20), daemon.job(waits)
    daemon.asked("kill", all_of_it)
    assert len(seen_by(daemon, waits).split(",")) == 1


def test_a_host_that_comes_back_with_other_gpus(no_leftovers, cluster, launcherd):
    """The job is placed by what was known; its ranks see what there is, and no more of it than their share."""
    daemon = launcherd("n1:4")
    for bind in ("one", "order"):
        lost, its = running(daemon, "-np", "1", "--gpu-bind", bind)
        say(cluster, "n1", "".join(gpu(number, f"{bind}-new") for number in range(4)))
        os.kill(agent_on(cluster, "n1").pid, signal.SIGKILL)
        assert daemon.muster("wait", lost).returncode == 125
        job, seen = running(daemon, "-np", "1", "--gpu-bind", bind)
        assert re.fullmatch(rf"GPU-{bind}-new-\d", seen), (its, seen)
        daemon.asked("kill", job)
        daemon.muster("wait", job)
