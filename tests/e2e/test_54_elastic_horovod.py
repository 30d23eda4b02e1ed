"""Elastic jobs: ranks and hosts fail, and the processes of the others live on. By a worker that speaks Horovod's protocol,
and by the real horovod 0.28.1 (installed by `tools/peers horovod`; skipped without it)."""

import os
import pathlib
import re
import signal
import time

import pytest
from conftest import BIN_DIR
from console import PATIENCE, PYTHON, Watched

WORKER = [PYTHON, pathlib.Path(__file__).with_name("elastic_worker.py")]
HOROVOD = BIN_DIR.parent / "peers/horovod/bin/python"
TRAINING = 240.0
LEASE = 15.0

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
        is_first = hvd.size() == 4 and os.environ["MUSTER_GENERATION"] == "0"
        if is_first and (hvd.rank(), state.step) in faults:
            os.kill(os.getpid(), signal.SIGKILL)
        total = hvd.allreduce(torch.ones(1), op=hvd.Sum, name="sum")
        assert int(total[0]) == hvd.size()
        state.step += 1
        state.commit()
    print("done rank", hvd.rank(), "of", hvd.size(), "was", first, flush=True)

train(state)
"""

# A world of two ranks waits at step 10 until the launcher reports new hosts.
GROWING = REAL.replace("import os, ", "import os, time, ").replace("        is_first =", """        if state.step == 10 and hvd.size() == 2:
            time.sleep(0.05)  # the time of a step
            state.check_host_updates()
            continue
        is_first =""")


def done(result):
    return sorted(re.findall(r"^\[(\d+)\]<stdout>:done rank (\d+) of (\d+) at step (\d+)$", result.stdout, re.M))


def generations(result):
    return re.findall(r"^(?:hvdrun: )?generation (\d+): (\d+) → (\d+) ranks(.*)$", result.stderr, re.M)


def first_collectives(result):
    """The (generation, seconds) of the lines about first collectives."""
    lines = re.findall(r"^hvdrun: generation (\d+): first collective after (\d+\.\d\d) s$", result.stderr, re.M)
    return [(generation, float(seconds)) for generation, seconds in lines]


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


COOLDOWN = ["--blacklist-cooldown-range", "1", "2"]


@pytest.mark.parametrize("what", ["kill", "exit"])
def test_a_host_returns_after_its_cooldown(hvdrun, no_leftovers, what):
    result = hvdrun(["-H", "n1:2,n2:2", "--min-np", "4", *COOLDOWN, *WORKER, "60", f"3:5:{what}"])
    assert result.rc == 0, result
    assert done(result) == [(str(rank), str(rank), "4", "60") for rank in range(4)], result
    assert [generation[:3] for generation in generations(result)] == [("1", "4", "4")], result
    assert len(re.findall("generation 0 rank", result.stdout)) == 4, result
    assert len(re.findall("generation 1 rank . of 4 at step 5", result.stdout)) == 4, result


@pytest.mark.parametrize("victim", ["agent", "warden"])
def test_a_host_returns_with_another_agent(hvdrun, cluster, no_leftovers, victim):
    job = Watched(hvdrun, cluster, ["-H", "n1:2,n2:2", "--min-np", "4", *COOLDOWN, *WORKER, "150"])
    job.out.wait_for(r"\[\d+\]<stdout>:generation 0 rank", 4)
    agent, warden = agent_and_warden(cluster, "n2")
    os.kill(agent.pid if victim == "agent" else warden.pid, signal.SIGKILL)
    result = job.end()
    assert result.rc == 0, result
    assert done(result) == [(str(rank), str(rank), "4", "150") for rank in range(4)], result
    assert [generation[:3] for generation in generations(result)] == [("1", "4", "4")], result


def test_a_free_host_takes_the_place_of_a_failed_one(hvdrun, no_leftovers):
    result = hvdrun(["-np", "2", "--max-np", "2", "-H", "n1:1,n2:1,n3:1", "--min-np", "2", *WORKER, "60", "1:5"])
    assert result.rc == 0, result
    assert done(result) == [("0", "0", "2", "60"), ("1", "1", "2", "60")], result
    ((number, before, now, rest),) = generations(result)
    assert (number, before, now) == ("1", "2", "2") and "n2 lost" in rest and "n3" in rest, result


def test_the_job_goes_on_if_a_free_host_does_not_start(hvdrun, no_leftovers):
    result = hvdrun(["-np", "2", "--max-np", "2", "-H", "n1:1,n2:1,nowhere:1", "--min-np", "1", *WORKER, "60", "1:5"])
    assert result.rc == 0, result
    assert done(result) == [("0", "0", "1", "60")], result
    assert len(re.findall("^hvdrun: .*nowhere.*$", result.stderr, re.M)) == 1, result


def test_a_process_joins_on_its_host_after_an_abort(hvdrun, no_leftovers):
    # The abort follows the failure of another host, so n1 is not to blame.
    result = hvdrun(["-H", "n1:2,n2:1", "--min-np", "1", *WORKER, "60", "1:5:abort", "2:5:exit"])
    assert result.rc == 0, result
    assert done(result) == [("0", "0", "2", "60"), ("1", "1", "2", "60")], result
    assert [generation[:3] for generation in generations(result)] == [("1", "3", "2")], result


def test_ctrl_c_while_a_host_joins(hvdrun, cluster, no_leftovers):
    cluster.cut("n3")
    job = Watched(hvdrun, cluster,
                  ["--verbose", "-np", "2", "--max-np", "2", "-H", "n1:1,n2:1,n3:1", "--min-np", "2", *WORKER, "1000", "1:5"])
    job.err.wait_for("n3: joins the job")
    job.signal(signal.SIGINT)
    assert job.end().rc == 130
    cluster.heal("n3")


def growth(then="n1:2 n2:2"):
    """The script lists two slots of n1 when the job starts, and `then` from its second run on."""
    script = f"f=/tmp/listed-$PPID; [ -e $f ] && set {then} || set n1:2; : > $f; printf '%s\\n' \"$@\""
    return ["--host-discovery-script", script, "--min-np", "2", "--max-np", "4"]


# The script has run twice when rank 0 asks for new numbers at its 150th step, 3 s after the start.
GROWS = [*WORKER, "200", "0:150:ask"]


@pytest.mark.parametrize("then", ["n1:2 n2:2", "n1:4"], ids=["host", "slots"])
def test_a_job_grows_to_its_largest_size(hvdrun, no_leftovers, then):
    result = hvdrun([*growth(then=then), *GROWS])
    assert result.rc == 0, result
    assert done(result) == [(str(rank), str(rank), "4", "200") for rank in range(4)], result
    assert [generation[:3] for generation in generations(result)] == [("1", "2", "4")], result


def test_files_come_to_a_host_that_joins(hvdrun, cluster, no_leftovers):
    cluster.run("head", "alice", ["mkdir", "-p", "program"], check=True)
    cluster.run("head", "alice", ["cp", str(WORKER[1]), "program/worker.py"], check=True)
    words = ["--stage", "program", PYTHON, "program/worker.py", *GROWS[2:]]
    result = hvdrun([*growth(), *words])
    for host in ("head", "n1", "n2"):
        cluster.run(host, "alice", ["rm", "-rf", "program"], check=True)
    assert result.rc == 0, result
    assert done(result) == [(str(rank), str(rank), "4", "200") for rank in range(4)], result


def test_output_files_of_new_ranks(hvdrun, cluster, no_leftovers):
    result = hvdrun([*growth(), "--output-filename", "out", *GROWS])
    files = cluster.run("head", "alice", ["sh", "-c", "tail -n 1 out/rank.*/stdout"], check=True).stdout
    cluster.run("head", "alice", ["rm", "-rf", "out"], check=True)
    assert result.rc == 0, result
    text = files.decode() if isinstance(files, bytes) else files
    assert re.findall(r"done rank (\d) of 4", text) == ["0", "1", "2", "3"], files


def test_hosts_return_after_random_failures(hvdrun, no_leftovers):
    words = ["-H", "n1:2,n2:2,n3:2,n4:2", "--min-np", "8", *COOLDOWN, "-x", "WORKER_CHAOS=0.001", *WORKER, "600"]
    result = hvdrun(words, timeout=180.0)
    assert result.rc == 0, result
    assert done(result) == [(str(rank), str(rank), "8", "600") for rank in range(8)], result
    assert all(generation[1:3] == ("8", "8") for generation in generations(result)), result


def test_survivors_wait_for_slow_imports(hvdrun, no_leftovers):
    """Horovod's workers wait 30 s for a key of a peer; these wait 2 s."""
    patience = ["-x", "WORKER_PATIENCE=2", "-x", "WORKER_IMPORTS=6"]
    result = hvdrun([*growth(), *patience, *GROWS])
    assert result.rc == 0, result
    assert done(result) == [(str(rank), str(rank), "4", "200") for rank in range(4)], result


def test_survivors_go_on_if_new_processes_end_early(hvdrun, no_leftovers):
    result = hvdrun([*growth(), "-x", "WORKER_JOINS=3", *GROWS])
    assert result.rc == 0, result
    assert done(result) == [("0", "0", "2", "200"), ("1", "1", "2", "200")], result
    assert re.search("n2: a new process ended before it joined the job: exit code 3", result.stderr), result


@pytest.mark.parametrize("victim", ["agent", "warden"])
def test_survivors_go_on_without_a_host_that_dies_while_it_joins(hvdrun, cluster, no_leftovers, victim):
    words = [*growth(), "--verbose", "-x", "WORKER_IMPORTS=600", *GROWS]
    job = Watched(hvdrun, cluster, words)
    job.err.wait_for(r"rank [23] on n2: pid", 2)
    agent, warden = agent_and_warden(cluster, "n2")
    os.kill(agent.pid if victim == "agent" else warden.pid, signal.SIGKILL)
    result = job.end()
    assert result.rc == 0, result
    assert done(result) == [("0", "0", "2", "200"), ("1", "1", "2", "200")], result


def test_ctrl_c_while_new_processes_import(hvdrun, cluster, no_leftovers):
    words = [*growth(), "--verbose", "-x", "WORKER_IMPORTS=600", *GROWS]
    job = Watched(hvdrun, cluster, words)
    job.err.wait_for(r"rank [23] on n2: pid", 2)
    job.signal(signal.SIGINT)
    assert job.end().rc == 130


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
    assert first_collectives(result) == [], "only libmuster reports it"


@pytest.mark.parametrize("faults", [["3:10"], ["0:10", "1:10"]], ids=["last-host", "first-host"])
def test_the_drop_in_goes_on(hvdrun, no_leftovers, faults):
    """The same script on libmuster: survivors keep their processes."""
    began = time.monotonic()
    result = hvdrun(["-H", "n1:2,n2:2", "--min-np", "2", PYTHON, "-c", REAL, *faults], timeout=TRAINING)
    assert result.rc == 0, result
    ends = re.findall(r"^\[(\d+)\]<stdout>:done rank (\d+) of (\d+) was", result.stdout, re.M)
    assert sorted(ends) == [("0", "0", "2"), ("1", "1", "2")], result
    assert [generation[:3] for generation in generations(result)] == [("1", "4", "2")], result
    before = dict(re.findall(r"rank (\d+) of 4 at step 0 pid (\d+)", result.stdout))
    after = dict(re.findall(r"rank (\d+) of 2 at step 10 pid (\d+)", result.stdout))
    first = 0 if faults == ["3:10"] else 2  # the rank that the survivors' rank 0 had
    assert after == {"0": before[str(first)], "1": before[str(first + 1)]}, result
    (generation, seconds), = first_collectives(result)
    planned = float(re.search(r"^hvdrun: generation 1: .*, (\d+\.\d\d) s$", result.stderr, re.M)[1])
    assert generation == "1" and planned - 0.01 <= seconds < time.monotonic() - began, result


UNTIL_SMALL = r"""
import sys
import torch
import horovod.torch as hvd
hvd.init()
state = hvd.elastic.TorchState(step=0)

@hvd.elastic.run
def train(state):
    while hvd.size() > 4 or state.step < 100:
        assert int(hvd.allreduce(torch.ones(1), op=hvd.Sum, name="sum")[0]) == hvd.size()
        state.step += 1
        state.commit()
        if state.step == 20 and hvd.size() > 4:
            print("trains", flush=True)

train(state)
"""


@pytest.mark.parametrize("host", ["n3", "n1"], ids=["last-host", "host-of-rank-0"])
def test_the_drop_in_does_not_wait_for_a_silent_host(hvdrun, cluster, host):
    """The kernel would break the connections to it 30 s after its last answer, 15 s after its lease."""
    job = Watched(hvdrun, cluster, ["-H", "n1:2,n2:2,n3:2", "--min-np", "2", PYTHON, "-c", UNTIL_SMALL])
    job.out.wait_for(r"\[\d+\]<stdout>:trains", 6, TRAINING)
    cluster.cut(host)
    result = job.end(LEASE + PATIENCE)
    cluster.heal(host)
    assert result.rc == 0, result
    [(number, before, now, rest)] = generations(result)
    assert (number, before, now) == ("1", "6", "4") and host in rest, result
    seconds = float(re.search(r"([0-9.]+) s$", rest)[1])  # since the end of the lease
    assert seconds < 8, result


def returned(result):
    """Checks a run in which rank 3 died at step 10 and its host came back."""
    assert result.rc == 0, result
    ends = re.findall(r"^\[(\d+)\]<stdout>:done rank (\d+) of (\d+) was", result.stdout, re.M)
    assert sorted(ends) == [(str(rank), str(rank), "4") for rank in range(4)], result
    assert [generation[:3] for generation in generations(result)] == [("1", "4", "4")], result
    before = dict(re.findall(r"rank (\d+) of 4 at step 0 pid (\d+)", result.stdout))
    after = dict(re.findall(r"rank (\d+) of 4 at step 10 pid (\d+)", result.stdout))
    assert sorted(after) == ["0", "1", "2", "3"], result  # also the new processes have the state
    assert after["0"] == before["0"] and after["1"] == before["1"], result
    assert after["2"] != before["2"] and after["3"] != before["3"], result


@pytest.mark.compat("horovod-gloo", "0.28.1")
def test_a_host_returns_to_real_horovod(hvdrun, own_names, no_leftovers):
    if not HOROVOD.exists():
        pytest.skip("horovod is not installed: tools/peers horovod")
    returned(hvdrun(["-H", "n1:2,n2:2", "--min-np", "4", *COOLDOWN, HOROVOD, "-c", REAL, "3:10"], timeout=TRAINING))


def test_a_host_returns_to_the_drop_in(hvdrun, no_leftovers):
    returned(hvdrun(["-H", "n1:2,n2:2", "--min-np", "4", *COOLDOWN, PYTHON, "-c", REAL, "3:10"], timeout=TRAINING))


def grown(result):
    assert result.rc == 0, result
    ends = re.findall(r"^\[(\d+)\]<stdout>:done rank (\d+) of (\d+) was", result.stdout, re.M)
    assert sorted(ends) == [(str(rank), str(rank), "4") for rank in range(4)], result
    assert [generation[:3] for generation in generations(result)] == [("1", "2", "4")], result
    before = dict(re.findall(r"rank (\d+) of 2 at step 0 pid (\d+)", result.stdout))
    after = dict(re.findall(r"rank (\d+) of 4 at step 10 pid (\d+)", result.stdout))
    assert len(after) == 4 and before == {"0": after["0"], "1": after["1"]}, result


@pytest.mark.compat("horovod-gloo", "0.28.1")
def test_real_horovod_grows(hvdrun, own_names, no_leftovers):
    if not HOROVOD.exists():
        pytest.skip("horovod is not installed: tools/peers horovod")
    grown(hvdrun([*growth(), HOROVOD, "-c", GROWING], timeout=TRAINING))


def test_the_drop_in_grows(hvdrun, no_leftovers):
    grown(hvdrun([*growth(), PYTHON, "-c", GROWING], timeout=TRAINING))
