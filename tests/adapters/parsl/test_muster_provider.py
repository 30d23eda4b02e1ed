"""What is particular to Muster's provider of Parsl. `_run_tests` is Parsl's own check of its local provider."""
import os
import time

import pytest
from parsl.jobs.states import JobState
from parsl.providers.errors import SubmitException
from parsl.tests.test_providers import test_local_provider as upstream

from muster.adapters.parsl import MusterProvider, seconds_of
from muster.client import Client, InvalidArgument


@pytest.fixture
def provider(tmp_path):
    one = MusterProvider()
    one.script_dir = str(tmp_path)
    return one


def until(provider, job, states):
    deadline = time.monotonic() + 60
    while True:
        now = provider.status([job])[0]
        if now.state in states:
            return now
        assert not now.terminal and time.monotonic() < deadline, now
        time.sleep(0.05)


def test_as_parsls_local_provider(provider):
    upstream._run_tests(provider)


def test_workers_are_ranks(provider):
    job = provider.submit("echo $MUSTER_RANK of $MUSTER_SIZE", 3, job_name="three")
    status = until(provider, job, [JobState.COMPLETED])
    assert sorted(status.stdout.splitlines()) == ["0 of 3", "1 of 3", "2 of 3"]
    with Client() as client:
        assert client.get(job).name == "three"


def test_blocks_run_beside_each_other(provider):
    jobs = [provider.submit("sleep 1000", 1) for _ in range(2)]
    for job in jobs:
        until(provider, job, [JobState.RUNNING])
    assert provider.cancel(jobs) == [True, True]
    for job in jobs:
        assert until(provider, job, [JobState.CANCELLED]).terminal
    assert provider.cancel([*jobs, "aaaaaaaa"]) == [True, True, False]


def test_waiting_held_and_late_blocks(tmp_path):
    provider = MusterProvider(walltime="00:00:01")
    provider.script_dir = str(tmp_path)
    late = until(provider, provider.submit("echo begun; sleep 1000", 1), [JobState.TIMEOUT])
    assert (late.exit_code, late.stdout) == (124, "begun\n")
    own = provider.submit("exit 124", 1)
    assert until(provider, own, [JobState.FAILED]).exit_code == 124
    with Client() as client:
        all_slots = client.submit(["sleep", "1000"], size=8, environment=os.environ)
        waiting = provider.submit("true", 8)
        assert provider.status([waiting])[0].state == JobState.PENDING
        client.hold(waiting)
        assert provider.status([waiting])[0].state == JobState.HELD
        client.kill(all_slots, at_once=True)
        client.release(waiting)
        assert until(provider, waiting, [JobState.COMPLETED]).exit_code == 0


def test_what_workers_get(monkeypatch, tmp_path):
    monkeypatch.setenv("WORD", "mine")
    provider = MusterProvider(worker_init="export BEFORE=init", cores_per_node=1, hosts=["localhost:2"], priority=3)
    provider.script_dir = str(tmp_path)
    job = provider.submit("echo $WORD $BEFORE $PARSL_CORES", 1)
    assert until(provider, job, [JobState.COMPLETED]).stdout == "mine init 1\n"
    with Client() as client:
        assert client.get(job).priority == 3
    other = MusterProvider(environment={"PATH": "/usr/bin:/bin"})
    other.script_dir = str(tmp_path)
    assert until(other, other.submit("echo [$WORD]", 1), [JobState.COMPLETED]).stdout == "[]\n"


@pytest.mark.parametrize(("options", "word"), [(dict(hosts=["elsewhere"]), "elsewhere"), (dict(nodes_per_block=100), "slots")])
def test_a_refusal_is_parsls_exception(options, word):
    with pytest.raises(SubmitException) as error:
        MusterProvider(**options).submit("true", 1, job_name="mine")
    assert word in error.value.message and error.value.job_name == "mine"


def test_wrong_arguments(tmp_path):
    for text in ("10", "1:2", "00:99:00", "-1:00:00"):
        with pytest.raises(ValueError, match="walltime"):
            MusterProvider(walltime=text)
    assert seconds_of("01:02:03") == 3723
    with pytest.raises(InvalidArgument):
        MusterProvider(launcher_address="nonsense")
    with pytest.raises(SubmitException, match="no launcherd answers"):
        MusterProvider(launcher_address=f"unix:{tmp_path}/s").submit("true", 1)


def test_a_job_that_launcherd_has_forgotten(provider):
    job = provider.submit("true", 1)
    provider.resources["aaaaaaaa"] = dict(provider.resources[job])
    assert provider.status(["aaaaaaaa"])[0].state == JobState.FAILED
    until(provider, job, [JobState.COMPLETED])
