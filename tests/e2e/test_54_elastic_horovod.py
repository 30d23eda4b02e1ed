"""Elastic jobs: ranks and hosts fail, and the processes of the others live on. By a worker that speaks Horovod's protocol,
and by the real horovod 0.28.1 (installed by `tools/peers horovod`; skipped without it)."""

import os
import pathlib
import re
import signal

import pytest
from conftest import BIN_DIR
from console import PYTHON, Watched

WORKER = [PYTHON, pathlib.Path(__file__).with_name("elastic_worker.py")]
HOROVOD = BIN_DIR.parent / "peers/horovod/bin/python"
TRAINING = 240.0

REAL = r"""
import os, signal, sys
import torch
import horovod.torch as hvd
hvd.init()
state = hvd.elastic.TorchState(step=0)
faults = {tuple(map(int, word.split(":"))) for word in sys.argv[1:]}
first = hvd.rank()

@hvd.elastic.run
def train(state):
    print("rank", hvd.rank(), "of", hvd.size(), "at step", state.step, "pid", os.getpid(), flush=True)
    while state.step < 40:
        if hvd.size() == 4 and (hvd.rank(), state.step) in faults:
            os.kill(os.getpid(), signal.SIGKILL)
        total = hvd.allreduce(torch.ones(1), op=hvd.Sum, name="sum")
        assert int(total[0]) == hvd.size()
        state.step += 1
        state.commit()
    print("done rank", hvd.rank(), "of", hvd.size(), "was", first, flush=True)

train(state)
"""


def done(result):
    return sorted(re.findall(r"^\[(\d+)\]<stdout>:done rank (\d+) of (\d+) at step (\d+)$", result.stdout, re.M))


def generations(result):
    return re.findall(r"^(?:hvdrun: )?generation (\d+): (\d+) → (\d+) ranks(.*)$", result.stderr, re.M)


def elastic(hvdrun, hosts, min_np, *words, timeout=60.0):
    return hvdrun(["-H", hosts, "--min-np", str(min_np), *WORKER, *words], timeout=timeout)


def test_a_job_without_faults(hvdrun, no_leftovers):
    result = elastic(hvdrun, "n1:2,n2:2", 2, "10")
    assert result.rc == 0, result
    assert done(result) == [(str(rank), str(rank), "4", "10") for rank in range(4)], result
    assert not generations(result), result


@pytest.mark.parametrize("what", ["kill", "exit"])
def test_survivors_go_on_without_the_host_of_a_failed_rank(hvdrun, no_leftovers, what):
    result = elastic(hvdrun, "n1:2,n2:2", 2, "60", f"3:5:{what}")
    assert result.rc == 0, result
    assert done(result) == [("0", "0", "2", "60"), ("1", "1", "2", "60")], result
    (generation,) = generations(result)
    assert generation[:3] == ("1", "4", "2") and "n2 lost" in generation[3], result


def test_the_store_and_rank_0_move_to_another_host(hvdrun, no_leftovers):
    result = elastic(hvdrun, "n1:2,n2:2,n3:1", 2, "60", "0:5", "1:5")
    assert result.rc == 0, result
    assert done(result) == [(str(rank), str(rank), "3", "60") for rank in range(3)], result
    assert [generation[:3] for generation in generations(result)] == [("1", "5", "3")], result


def test_failures_of_two_hosts_at_once(hvdrun, no_leftovers):
    result = elastic(hvdrun, "n1:1,n2:1,n3:1,n4:1", 1, "60", "1:5", "2:5")
    assert result.rc == 0, result
    assert done(result) == [("0", "0", "2", "60"), ("1", "1", "2", "60")], result


def test_the_job_fails_when_every_rank_does(hvdrun, no_leftovers):
    result = elastic(hvdrun, "n1:1,n2:1", 1, "60", "0:5:exit", "1:5:exit")
    assert result.rc == 1, result
    assert not generations(result), result


def test_the_job_ends_with_too_few_ranks(hvdrun, no_leftovers):
    result = hvdrun(["-H", "n1:2,n2:2", "--min-np", "3", "--elastic-timeout", "1", *WORKER, "60", "3:5"])
    assert result.rc == 137, result
    assert "Timed out waiting for minimum number of slots" in result.stderr, result
    assert not done(result), result


def test_the_reset_limit(hvdrun, no_leftovers):
    result = hvdrun(["-H", "n1:1,n2:1,n3:1", "--min-np", "1", "--reset-limit", "0", *WORKER, "60", "2:5"])
    assert result.rc == 137, result
    assert "number of resets during elastic job exceeded limit: 0" in result.stderr, result


def test_ctrl_c_after_a_change(hvdrun, cluster, no_leftovers):
    job = Watched(hvdrun, cluster, ["-H", "n1:2,n2:2", "--min-np", "2", *WORKER, "100000", "3:5"])
    job.out.wait_for(r"\[\d+\]<stdout>:generation 1 rank", 2)
    job.signal(signal.SIGINT)
    assert job.end().rc == 130


def test_ctrl_c_while_a_change_waits_for_a_rank(hvdrun, cluster, no_leftovers):
    # Rank 0 of n1 never asks for new numbers: it does not notice that its peer has gone.
    program = "[ $HOROVOD_RANK = 0 ] && exec sleep 1000; [ $HOROVOD_RANK = 1 ] && exit 3; echo waits; exec sleep 1000"
    job = Watched(hvdrun, cluster, ["-H", "n1:1,n2:1,n3:1", "--min-np", "1", "sh", "-c", program])
    job.out.wait_for(r"\[2\]<stdout>:waits", 1)
    job.signal(signal.SIGINT)
    assert job.end().rc == 130


def agent_and_warden(cluster, host, user="alice"):
    processes = {process.pid: process for process in cluster.processes(host) if process.uid == cluster.uid(user)}
    (warden,) = [process for process in processes.values() if process.comm == "muster-warden"]
    return processes[warden.ppid], warden


@pytest.mark.parametrize("victim", ["agent", "warden"])
@pytest.mark.parametrize("host", ["n1", "n2"])
def test_survivors_go_on_without_the_host_of_a_killed(hvdrun, cluster, no_leftovers, victim, host):
    job = Watched(hvdrun, cluster, ["-H", "n1:2,n2:2,n3:1", "--min-np", "2", *WORKER, "250"])
    job.out.wait_for(r"\[\d+\]<stdout>:generation 0 rank", 5)
    agent, warden = agent_and_warden(cluster, host)
    os.kill(agent.pid if victim == "agent" else warden.pid, signal.SIGKILL)
    result = job.end()
    assert result.rc == 0, result
    assert done(result) == [(str(rank), str(rank), "3", "250") for rank in range(3)], result
    ((number, before, now, rest),) = generations(result)
    assert (number, before, now) == ("1", "5", "3") and f"{host} lost" in rest, result


def test_survivors_go_on_without_a_host_that_is_cut_off(hvdrun, cluster):
    job = Watched(hvdrun, cluster, ["-H", "n1:1,n2:1,n3:1", "--min-np", "2", "-x", "WORKER_PATIENCE=3", *WORKER, "250"])
    job.out.wait_for(r"\[\d+\]<stdout>:generation 0 rank", 3)
    cluster.cut("n3")
    result = job.end()
    cluster.heal("n3")
    assert result.rc == 0, result
    assert done(result) == [(str(rank), str(rank), "2", "250") for rank in range(2)], result
    assert "n3" in generations(result)[0][3], result


@pytest.mark.compat("horovod-gloo", "0.28.1")
@pytest.mark.parametrize("faults,lost", [(["3:10"], 2), (["0:10", "1:10"], 2)], ids=["last-host", "first-host"])
def test_real_horovod_goes_on(hvdrun, own_names, no_leftovers, faults, lost):
    if not HOROVOD.exists():
        pytest.skip("horovod is not installed: tools/peers horovod")
    result = hvdrun(["-H", "n1:2,n2:2", "--min-np", "2", HOROVOD, "-c", REAL, *faults], timeout=TRAINING)
    assert result.rc == 0, result
    ends = re.findall(r"^\[(\d+)\]<stdout>:done rank (\d+) of (\d+) was", result.stdout, re.M)
    assert sorted(ends) == [("0", "0", "2"), ("1", "1", "2")], result
    assert [generation[:3] for generation in generations(result)] == [("1", "4", str(lost))], result


@pytest.mark.parametrize("faults", [["3:10"], ["0:10", "1:10"]], ids=["last-host", "first-host"])
def test_the_drop_in_goes_on(hvdrun, no_leftovers, faults):
    """The same script on libmuster: survivors keep their processes."""
    result = hvdrun(["-H", "n1:2,n2:2", "--min-np", "2", PYTHON, "-c", REAL, *faults], timeout=TRAINING)
    assert result.rc == 0, result
    ends = re.findall(r"^\[(\d+)\]<stdout>:done rank (\d+) of (\d+) was", result.stdout, re.M)
    assert sorted(ends) == [("0", "0", "2"), ("1", "1", "2")], result
    assert [generation[:3] for generation in generations(result)] == [("1", "4", "2")], result
    before = dict(re.findall(r"rank (\d+) of 4 at step 0 pid (\d+)", result.stdout))
    after = dict(re.findall(r"rank (\d+) of 2 at step 10 pid (\d+)", result.stdout))
    first = 0 if faults == ["3:10"] else 2  # the rank that the survivors' rank 0 had
    assert after == {"0": before[str(first)], "1": before[str(first + 1)]}, result
