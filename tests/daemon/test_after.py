"""Jobs that wait for other jobs, change while they wait, tell a command of their end, and ask not to be started again."""
import time

import grpc
import pytest
from cluster.testing import eventually

PATIENCE = 30.0
OK, ANY = "DEPENDENCY_CONDITION_OK", "DEPENDENCY_CONDITION_ANY"


def after(*jobs, condition=OK):
    return [{"job": job, "condition": condition} for job in jobs]


def update(api, job, **fields):
    api.api.UpdateJob(api.stubs.launcher.UpdateJobRequest(job=job, **fields), timeout=api.PATIENCE)


def refusal(call, *args, **fields):
    """The code and the message of a call that is refused."""
    with pytest.raises(grpc.RpcError) as refused:
        call(*args, **fields)
    return refused.value.code(), refused.value.details()


def held(api, **fields):
    return api.submit(["true"], request_held=True, **fields)


def release(api, job):
    api.api.Release(api.stubs.launcher.ReleaseRequest(job=job), timeout=api.PATIENCE)


def reasons(api, job):
    return [event.job_state_changed.reason for event in api.watch(job) if event.HasField("job_state_changed")]


def test_a_job_starts_after_the_success_of_another(api, tmp_path):
    mark = tmp_path / "mark"
    first = api.submit(["sh", "-c", f"sleep 0.3; mkdir {mark}"], request_held=True)
    second = api.submit(["rmdir", str(mark)], request_after=after(first[:6]))
    waiting = api.get(second)
    assert waiting.reason == f"waits for the success of job {first}"
    assert [(each.job, each.condition) for each in waiting.after] == [(first, 1)]
    release(api, first)
    assert api.wait(second).exit_code == 0, "rmdir fails before mkdir"
    assert not api.get(second).after
    assert f"job {first} ended as SUCCEEDED with exit code 0; waits for slots" in reasons(api, second)


def test_a_failure_ends_those_that_wait_for_the_success(api):
    first = api.submit(["sh", "-c", "exit 3"], request_held=True)
    ok = api.submit(["true"], request_after=after(first))
    then = api.submit(["true"], request_after=after(ok))
    whatever = api.submit(["true"], request_after=after(first, condition=ANY))
    release(api, first)
    ended = api.wait(ok)
    assert (ended.exit_code, ended.reason) == (
        125, f"it waited for the success of job {first}, which ended as FAILED with exit code 3")
    assert api.stubs.job.JobState.Name(ended.state) == "JOB_STATE_FAILED" and not ended.HasField("started")
    assert api.wait(then).reason == f"it waited for the success of job {ok}, which ended as FAILED with exit code 125"
    assert api.wait(whatever).exit_code == 0
    code, message = refusal(api.submit, ["true"], request_after=after(first))
    assert code == grpc.StatusCode.FAILED_PRECONDITION
    assert message == f"after: job {first} has ended as FAILED with exit code 3; use {first}:any, or rerun it and name the new job"
    assert api.wait(api.submit(["true"], request_after=after(first, condition=ANY))).exit_code == 0


def test_a_job_that_is_gone_has_a_clear_answer(launcherd):
    daemon = launcherd()
    api = daemon.client()
    code, message = refusal(api.submit, ["true"], request_after=after("zzzzzzzz"))
    assert code == grpc.StatusCode.NOT_FOUND
    assert message == "after: unknown job 'zzzzzzzz'; an ended job is removed when its retention time is over"
    first = api.submit(["true"])
    api.wait(first)
    request = api.request(["true"], request_after=after(first), request_request_id="once")
    job = api.send(request)
    api.wait(job)
    assert api.send(request) == job, "a repeated request makes no second job"


@pytest.mark.parametrize("fields, says", [
    ({"request_after": [{"job": ""}]}, "after.job"),
    ({"request_after": [{"job": "a" * 9}]}, "after.job"),
    ({"request_after": [{"job": "a", "condition": 7}]}, "after.condition: unknown value 7"),
    ({"request_after": [{"job": "a"}] * 257}, "after: more than 256 jobs"),
    ({"request_notify": b"a\0b"}, "notify"),
    ({"request_notify": b"a" * 4097}, "notify"),
])
def test_wrong_fields_are_named(api, fields, says):
    code, message = refusal(api.submit, ["true"], **fields)
    assert code == grpc.StatusCode.INVALID_ARGUMENT and says in message, message
    assert not api.api.ListJobs(api.stubs.launcher.ListJobsRequest(all=True)).jobs


def test_the_same_job_twice_is_refused(api):
    first = held(api)
    code, message = refusal(api.submit, ["true"], request_after=after(first, first[:7]))
    assert (code, message) == (grpc.StatusCode.INVALID_ARGUMENT, f"after: job {first} is named twice")


def test_a_circle_is_refused(api):
    first = held(api)
    second = held(api, request_after=after(first))
    third = held(api, request_after=after(second))
    code, message = refusal(update, api, first, after=after(third))
    assert code == grpc.StatusCode.FAILED_PRECONDITION
    assert message == f"after: these jobs would wait for each other: {first} -> {third} -> {second} -> {first}"
    code, message = refusal(update, api, first, after=after(first))
    assert message == f"after: these jobs would wait for each other: {first} -> {first}"
    update(api, third, no_after=True)
    update(api, first, after=after(third))
    assert api.get(first).reason == "held by " + api.get(first).user
    assert [each.job for each in api.get(first).after] == [third]


@pytest.mark.parametrize("signal", ["TERM", "KILL"])
def test_dependencies_and_holds_survive_a_launcherd(launcherd, signal):
    daemon = launcherd()
    api = daemon.client()
    first = held(api)
    second = api.submit(["true"], request_after=after(first))
    third = api.submit(["true"], request_after=after(second, first))
    update(api, third, after=after(second))
    daemon.end(signal)
    api = launcherd().client()
    assert api.get(first).held
    assert api.get(second).reason == f"waits for the success of job {first}"
    assert [each.job for each in api.get(third).after] == [second]
    release(api, first)
    assert api.wait(third).exit_code == 0


def test_a_job_can_be_changed_while_it_waits(launcherd):
    daemon = launcherd(slots=1)
    api = daemon.client()
    blocker = api.submit(["sleep", "1000"])
    api.until(blocker, "RUNNING")
    jobs = [api.submit(["true"], request_priority=1) for _ in range(2)]
    update(api, jobs[1], priority=5, deadline={"seconds": 4_000_000_000})
    daemon.end("KILL")
    daemon = launcherd(slots=1)
    api = daemon.client()
    changed = api.get(jobs[1])
    assert (changed.priority, changed.deadline.seconds) == (5, 4_000_000_000)
    rerun = api.api.Rerun(api.stubs.launcher.RerunRequest(job=jobs[1]), timeout=api.PATIENCE).job_id
    assert (api.get(rerun).priority, api.get(rerun).deadline.seconds) == (5, 4_000_000_000)
    update(api, jobs[1], no_deadline=True)
    assert not api.get(jobs[1]).HasField("deadline")
    update(api, jobs[0], deadline={"seconds": 1})
    assert api.wait(jobs[0]).exit_code == 124, "a deadline in the past"
    update(api, blocker, priority=3, deadline={"seconds": int(time.time()) + 1})
    ended = api.wait(blocker)
    assert (ended.exit_code, ended.reason) == (124, "its deadline has passed")
    assert api.wait(jobs[1]).exit_code == 0
    says = "priority 5, deadline 2096-10-02T07:06:40Z; set by "
    assert any(reason.startswith(says) for reason in reasons(api, jobs[1])), reasons(api, jobs[1])


def test_updates_that_make_no_sense_are_refused(api):
    job = held(api)
    for fields, says in [({}, "nothing is to change"),
                         ({"no_deadline": True, "deadline": {"seconds": 1}}, "no_deadline"),
                         ({"no_after": True, "after": after(job)}, "no_after"),
                         ({"deadline": {"seconds": -1}}, "deadline: must be between 1970 and 2200"),
                         ({"after": [{"job": "a", "condition": 9}]}, "after.condition")]:
        code, message = refusal(update, api, job, **fields)
        assert code == grpc.StatusCode.INVALID_ARGUMENT and says in message, message
    assert refusal(update, api, "zzzzzzzz", priority=1)[0] == grpc.StatusCode.NOT_FOUND
    assert refusal(update, api, job, after=after("zzzzzzzz"))[0] == grpc.StatusCode.NOT_FOUND
    running = api.submit(["sleep", "1000"], end_signal={"signal": 10, "ahead": {"seconds": 1}})
    api.until(running, "RUNNING")
    assert "no longer waits" in refusal(update, api, running, after=after(job))[1]
    assert "--signal" in refusal(update, api, running, deadline={"seconds": 4_000_000_000})[1]
    api.kill(running)
    api.wait(running)
    code, message = refusal(update, api, running, priority=1)
    assert code == grpc.StatusCode.FAILED_PRECONDITION and "has ended" in message


def test_a_waiting_job_knows_when_it_starts(launcherd):
    api = launcherd(slots=2).client()
    limited = api.submit(["sleep", "1000"], timeout={"seconds": 500})
    api.until(limited, "RUNNING")
    other = api.submit(["sleep", "1000"])
    api.until(other, "RUNNING")
    now = time.time()
    small, large = api.submit(["true"], timeout={"seconds": 100}), api.submit(["true"], size=2)
    small_start = api.get(small).expected_start.seconds
    assert now + 450 < small_start < now + 560
    assert not api.get(large).HasField("expected_start"), "the other job has no limit"
    update(api, other, deadline={"seconds": int(now) + 2000})
    assert now + 1950 < api.get(large).expected_start.seconds < now + 2060
    assert not api.get(limited).HasField("expected_start"), "it runs"
    assert not api.get(held(api)).HasField("expected_start")


def failures(api, job):
    return [event.notify_failed.reason for event in api.watch(job) if event.HasField("notify_failed")]


def test_a_command_runs_at_the_end(api, tmp_path):
    told = tmp_path / "told"
    command = f"echo $MUSTER_JOB_ID $MUSTER_JOB_STATE $MUSTER_EXIT_CODE >> {told}".encode()
    job = api.submit(["sh", "-c", "exit 3"], request_notify=command)
    api.wait(job)
    assert eventually(lambda: told.exists() and told.read_text() == f"{job} FAILED 3\n", PATIENCE)
    waiting = held(api, request_notify=command)
    api.kill(waiting)
    assert eventually(lambda: told.read_text().endswith(f"{waiting} KILLED 143\n"), PATIENCE)
    assert failures(api, job) == []


def test_a_command_that_fails_is_an_event(api):
    job = api.submit(["true"], request_notify=b"echo no mail >&2; exit 4")
    assert api.wait(job).exit_code == 0
    assert eventually(lambda: failures(api, job), PATIENCE)
    assert failures(api, job) == ["the command ended with exit code 4; it printed: no mail"]
    assert api.get(job).exit_code == 0, "the job itself has succeeded"


def test_a_killed_launcherd_runs_the_command_later(launcherd, tmp_path):
    daemon = launcherd()
    api = daemon.client()
    told = tmp_path / "told"
    job = api.submit(["true"], request_notify=f"test -e {told} && echo again >> {told} && exit 0; touch {told}; sleep 1000".encode())
    api.wait(job)
    assert eventually(told.exists, PATIENCE)
    daemon.end("KILL")
    launcherd()
    assert eventually(lambda: told.read_text() == "again\n", PATIENCE)


def report(api, job):
    return next(event.job_ended for event in api.watch(job) if event.HasField("job_ended"))


def test_exit_code_93_says_not_to_start_again(api, tmp_path):
    mark = tmp_path / "mark"
    job = api.submit(["sh", "-c", f"echo >> {mark}; exit 93"], max_restarts=3)
    ended = api.wait(job)
    assert (ended.exit_code, ended.attempt, ended.retryable) == (93, 0, False) and ended.HasField("retryable")
    assert mark.read_text() == "\n", "no restart"
    assert report(api, job).HasField("retryable") and not report(api, job).retryable
    failed = api.submit(["sh", "-c", "exit 1"])
    assert api.wait(failed).retryable and report(api, failed).retryable
    fine = api.submit(["true"])
    assert not api.wait(fine).HasField("retryable") and not report(api, fine).HasField("retryable")
