"""What is particular to Muster's executor of PSI/J."""
import datetime
import threading

import pytest
from psij import InvalidJobException, Job, JobAttributes, JobExecutor, JobSpec, JobState, ResourceSpecV1, SubmitException

from muster.client import Client

PATIENCE = datetime.timedelta(seconds=60)


@pytest.fixture
def executor():
    return JobExecutor.get_instance("muster")


def run(executor, *words, **fields):
    job = Job(JobSpec(words[0], list(words[1:]), **fields))
    executor.submit(job)
    return job, job.wait(PATIENCE)


def test_processes_are_ranks(executor, tmp_path):
    job, status = run(executor, "/bin/sh", "-c", "echo $MUSTER_RANK of $MUSTER_SIZE", directory=tmp_path, stdout_path="out",
                      name="numbers", resources=ResourceSpecV1(process_count=3))
    assert status.state == JobState.COMPLETED and status.exit_code == 0
    assert sorted((tmp_path / "out").read_text().split("\n")) == ["", "0 of 3", "1 of 3", "2 of 3"]
    with Client() as client:
        assert client.get(job.native_id).name == "numbers"


def test_the_end_has_a_code_and_a_reason(executor):
    _, status = run(executor, "/bin/sh", "-c", "exit 7")
    assert (status.state, status.exit_code) == (JobState.FAILED, 7) and "7" in status.message


def test_a_job_that_is_too_slow_has_failed(executor):
    _, status = run(executor, "/bin/sleep", "1000", attributes=JobAttributes(duration=datetime.timedelta(seconds=1)))
    assert (status.state, status.exit_code) == (JobState.FAILED, 124)


def test_a_job_that_was_killed_elsewhere_is_cancelled(executor):
    job = Job(JobSpec("/bin/sleep", ["1000"]))
    executor.submit(job)
    with Client() as client:
        client.kill(job.native_id, at_once=True)
    assert job.wait(PATIENCE).state == JobState.CANCELED
    job.cancel()
    executor.cancel(job)  # it has ended: nothing happens


def test_an_environment_of_its_own(executor, tmp_path):
    out = tmp_path / "out"
    run(executor, "/usr/bin/env", environment={"ONE": "a b\nc=d", "TWO": 2}, inherit_environment=False, stdout_path=out)
    names = {line.split("=")[0] for line in out.read_text().splitlines()}
    assert {"ONE", "TWO", "MUSTER_RANK"} <= names and "HOME" not in names and "PATH" not in names
    assert "ONE=a b\nc=d\n" in out.read_text()


def test_scripts_around_it(executor, tmp_path):
    (tmp_path / "pre").write_text("export WORD=before\n")
    (tmp_path / "post").write_text("echo after >> out\n")
    job, status = run(executor, "/bin/sh", "-c", "echo $WORD; exit 3", directory=tmp_path, stdout_path=tmp_path / "out",
                      pre_launch=tmp_path / "pre", post_launch=tmp_path / "post")
    assert (status.exit_code, (tmp_path / "out").read_text()) == (3, "before\nafter\n")


def test_a_file_that_cannot_be_opened(executor, tmp_path):
    job, status = run(executor, "/bin/true", stdin_path=tmp_path / "missing")
    assert status.state == JobState.FAILED
    with Client() as client:
        assert b"missing" in b"".join(chunk.data for chunk in client.logs(job.native_id))


def test_attributes_of_muster(executor):
    attributes = JobAttributes(account="physics", custom_attributes={"muster.priority": 5, "muster.hosts": ["localhost:2"], "slurm.x": 1})
    job, status = run(executor, "/bin/true", attributes=attributes, resources=ResourceSpecV1(process_count=2))
    assert status.state == JobState.COMPLETED
    with Client() as client:
        found = client.get(job.native_id)
    assert found.priority == 5 and [(label.name, label.value) for label in found.labels] == [("account", "physics")]


@pytest.mark.parametrize(("word", "fields"), [
    ("executable", dict(executable=None)), ("launcher", dict(launcher="srun")), ("queue_name", dict(attributes=JobAttributes(queue_name="x"))),
    ("reservation_id", dict(attributes=JobAttributes(reservation_id="x"))), ("spec.size", dict(resources=ResourceSpecV1(process_count=10_000))),
    ("exclusive_node_use", dict(resources=ResourceSpecV1(exclusive_node_use=True))),
    ("post_launch", dict(post_launch="/x", resources=ResourceSpecV1(process_count=2))),
    ("sise", dict(attributes=JobAttributes(custom_attributes={"muster.sise": 1}))),
    ("name", dict(attributes=JobAttributes(custom_attributes={"muster.name": "x" * 200})))])
def test_a_refusal_names_the_property(executor, word, fields):
    job = Job(JobSpec(**{"executable": "/bin/true", **fields}))
    with pytest.raises(InvalidJobException) as error:
        executor.submit(job)
    assert word in error.value.message and job.status.state == JobState.NEW and job.executor is None


def test_a_long_name_of_an_executable(executor, tmp_path):
    path = tmp_path / ("x" * 100) / ("y" * 100)
    path.parent.mkdir()
    path.symlink_to("/bin/true")
    assert run(executor, str(path))[1].state == JobState.COMPLETED


def test_a_launcher_that_is_not_there(tmp_path):
    nobody = JobExecutor.get_instance("muster", url=f"unix:{tmp_path}/s")
    with pytest.raises(SubmitException) as error:
        nobody.submit(Job(JobSpec("/bin/true")))
    assert error.value.transient and "no launcherd answers" in error.value.message
    with pytest.raises(SubmitException):
        nobody.list()


def test_a_job_that_does_not_exist(executor):
    job = Job()
    executor.attach(job, "aaaaaaaa")
    status = job.wait(PATIENCE)
    assert status.state == JobState.FAILED and "aaaaaaaa" in status.message


def test_an_ended_job_is_attached(executor):
    job, _ = run(executor, "/bin/false")
    other = Job()
    executor.attach(other, job.native_id)
    assert other.wait(PATIENCE).exit_code == 1
    with pytest.raises(InvalidJobException):
        executor.attach(other, job.native_id)


def test_many_jobs_and_one_callback(executor):
    seen, lock = {}, threading.Lock()

    def callback(job, status):
        with lock:
            seen.setdefault(job.id, []).append(status.state)

    executor.set_job_status_callback(callback)
    jobs = [Job(JobSpec("/bin/true")) for _ in range(30)]
    for job in jobs:
        executor.submit(job)
    for job in jobs:
        assert job.wait(PATIENCE).state == JobState.COMPLETED
    assert all(seen[job.id] == [JobState.QUEUED, JobState.ACTIVE, JobState.COMPLETED] for job in jobs), seen
