"""Elastic jobs whose hosts come from a script: it adds hosts, removes them, fails and hangs while the job runs. On
libmuster, and one case with the real horovod 0.28.1 (installed by `tools/peers horovod`; skipped without it)."""

import contextlib
import re
import signal

import pytest
from cluster import testing
from conftest import BIN_DIR
from console import PYTHON, Watched

HOROVOD = BIN_DIR.parent / "peers/horovod/bin/python"
HOSTS = "/home/alice/elastic-hosts"
ELASTIC = ["--host-discovery-script", f"cat {HOSTS}", "--min-np", "1", "--max-np", "4"]

# Trains until a world of argv[1] ranks has made 20 steps.
TRAIN = r"""
import os, sys, time
import numpy as np
import muster.elastic
import muster.numpy as hvd

hvd.init()
state = muster.elastic.ObjectState(step=0)

@muster.elastic.run
def train(state):
    print("world: rank", hvd.rank(), "of", hvd.size(), "at step", state.step, "pid", os.getpid(), flush=True)
    begin = state.step
    while hvd.size() != int(sys.argv[1]) or state.step < begin + 20:
        total = hvd.allreduce(np.ones(1), op=hvd.Sum)
        assert int(total[0]) == hvd.size()
        state.step += 1
        time.sleep(0.05)
        state.commit()
    print("done: rank", hvd.rank(), "of", hvd.size(), flush=True)

train(state)
"""

REAL = TRAIN.replace("import numpy as np\nimport muster.elastic\nimport muster.numpy as hvd",
                     "import torch\nimport horovod.torch as hvd").replace(
                         "muster.elastic.ObjectState(", "hvd.elastic.TorchState(").replace(
                             "muster.elastic.run", "hvd.elastic.run").replace("np.ones(1)", "torch.ones(1)")


class HostList:
    """The hosts that the script prints."""

    def __init__(self, cluster):
        self._path = cluster.path("head", HOSTS)

    def set(self, *lines):
        new = self._path.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in lines))
        new.chmod(0o644)
        new.replace(self._path)

    def remove(self):
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()


@pytest.fixture
def hosts(cluster):
    made = HostList(cluster)
    yield made
    made.remove()


def generations(result):
    return re.findall(r"^(?:hvdrun: )?generation (\d+): (\d+) → (\d+) ranks(.*)$", result.stderr, re.M)


def done(result):
    return sorted(re.findall(r"^\[(\d+)\]<stdout>:done: rank (\d+) of (\d+)$", result.stdout, re.M))


def all_of(size):
    return [(str(rank), str(rank), str(size)) for rank in range(size)]


def worlds(job, size):
    """Waits until all ranks of a world of that size train."""
    job.out.wait_for(rf"<stdout>:world: rank \d+ of {size} ", size)


def train(hvdrun, cluster, size, *options, python=PYTHON, script=TRAIN):
    return Watched(hvdrun, cluster, [*ELASTIC, *options, python, "-c", script, str(size)])


def test_a_host_that_the_script_adds_joins_the_job(hvdrun, cluster, hosts, no_leftovers):
    hosts.set("n1:2")
    job = train(hvdrun, cluster, 4)
    worlds(job, 2)
    hosts.set("n2:2", "n1:2")  # the order of the lines does not move rank 0
    result = job.end()
    assert result.rc == 0 and done(result) == all_of(4), result
    ((number, before, now, rest),) = generations(result)
    assert (number, before, now) == ("1", "2", "4") and "n2" in rest, result
    before = dict(re.findall(r"rank (\d+) of 2 at step 0 pid (\d+)", result.stdout))
    after = dict(re.findall(r"rank (\d+) of 4 at step [1-9]\d* pid (\d+)", result.stdout))
    assert after["0"] == before["0"] and after["1"] == before["1"], result
    assert len(after) == 4, result  # the new processes have the state


def test_a_host_that_the_script_removes_leaves_the_job(hvdrun, cluster, hosts, no_leftovers):
    hosts.set("n1:2", "n2:2")
    job = train(hvdrun, cluster, 2)
    worlds(job, 4)
    hosts.set("n1:2")
    result = job.end()
    assert result.rc == 0 and done(result) == all_of(2), result
    assert [generation[:3] for generation in generations(result)] == [("1", "4", "2")], result
    assert len(re.findall("has been removed from elastic job", result.stderr)) == 2, result
    assert "failed" not in result.stderr and "exit code" not in result.stderr, result


def test_the_host_of_rank_0_may_leave(hvdrun, cluster, hosts, no_leftovers):
    hosts.set("n1:1", "n2:1", "n3:1")
    job = train(hvdrun, cluster, 2)
    worlds(job, 3)
    hosts.set("n2:1", "n3:1")
    result = job.end()
    assert result.rc == 0 and done(result) == all_of(2), result
    assert [generation[:3] for generation in generations(result)] == [("1", "3", "2")], result


def test_one_slot_of_a_host_may_leave(hvdrun, cluster, hosts, no_leftovers):
    hosts.set("n1:1", "n2:2")
    job = train(hvdrun, cluster, 2)
    worlds(job, 3)
    hosts.set("n1:1", "n2:1")
    result = job.end()
    assert result.rc == 0 and done(result) == all_of(2), result
    assert [generation[:3] for generation in generations(result)] == [("1", "3", "2")], result


def test_a_script_in_trouble_changes_nothing(hvdrun, cluster, hosts, no_leftovers):
    hosts.set("n1:1", "n2:1")
    job = train(hvdrun, cluster, 1)
    worlds(job, 2)
    hosts.remove()  # cat fails now
    job.err.wait_for("ended with exit code 1.*the last list of hosts stays in use")
    hosts.set()
    job.err.wait_for("no host is named.*the last list of hosts stays in use")
    hosts.set("n1:1", "-oProxyCommand=reboot")
    job.err.wait_for(f"cat {HOSTS}:2:")
    hosts.set("n1:1")
    result = job.end()
    assert result.rc == 0 and done(result) == all_of(1), result
    assert len(re.findall("the last list of hosts stays in use", result.stderr)) == 3, result
    assert [generation[:3] for generation in generations(result)] == [("1", "2", "1")], result


@pytest.mark.parametrize("number", [None, signal.SIGINT, signal.SIGKILL], ids=["end", "ctrl-c", "kill"])
def test_nothing_is_left_of_a_script_that_hangs(hvdrun, cluster, hosts, no_leftovers, number):
    hosts.set("n1:1")
    up = cluster.path("head", "/home/alice/elastic-hangs")
    script = f"if [ -e {HOSTS}.first ]; then echo $$ >/home/alice/elastic-hangs; exec sleep 10000; fi; cat {HOSTS}; " \
             f": >{HOSTS}.first"
    program = "sleep 1000" if number else "while [ ! -e /tmp/elastic-end ]; do sleep 0.05; done"
    job = Watched(hvdrun, cluster, ["--host-discovery-script", script, "--min-np", "1", "sh", "-c", program])
    first = cluster.path("head", f"{HOSTS}.first")
    end = cluster.path("n1", "/tmp/elastic-end")
    try:
        assert testing.eventually(lambda: up.exists() and up.read_text().strip(), 30.0)
        if number:
            job.signal(number)
        else:
            end.write_text("")
        assert job.end().rc == {None: 0, signal.SIGINT: 130, signal.SIGKILL: -signal.SIGKILL}[number]
    finally:
        for path in (up, first, end):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
    assert testing.eventually(lambda: not any("10000" in each.argv for each in cluster.processes("head")), 20.0)


def test_the_job_waits_for_its_first_hosts(hvdrun, cluster, hosts, no_leftovers):
    hosts.set("n1:1")
    job = train(hvdrun, cluster, 3, "-np", "3")
    job.err.wait_for(f"waiting for 3 slots: cat {HOSTS} lists 1")
    hosts.set("n1:1", "n2:2")
    result = job.end()
    assert result.rc == 0 and done(result) == all_of(3), result
    assert not generations(result), result


def test_the_wait_for_hosts_ends(hvdrun, cluster, hosts, no_leftovers):
    hosts.set("n1:1")
    result = hvdrun([*ELASTIC, "-np", "3", "--elastic-timeout", "1", "true"])
    assert result.rc == 125, result
    assert "Timed out waiting for minimum number of slots" in result.stderr, result


@pytest.mark.compat("horovod-gloo", "0.28.1")
def test_hosts_of_real_horovod_come_and_go(hvdrun, cluster, hosts, own_names, no_leftovers):
    if not HOROVOD.exists():
        pytest.skip("horovod is not installed: tools/peers horovod")
    hosts.set("n1:1")
    job = train(hvdrun, cluster, 1, python=HOROVOD, script=REAL.replace("!= int(sys.argv[1])", "!= 1 or begin == 0"))
    worlds(job, 1)
    hosts.set("n1:1", "n2:1")
    worlds(job, 2)
    hosts.set("n1:1")
    result = job.end()
    assert result.rc == 0 and done(result) == all_of(1), result
    assert [generation[:3] for generation in generations(result)] == [("1", "1", "2"), ("2", "2", "1")], result
