"""Arrays: one job with many elements."""
import pathlib

import grpc
import pytest
from cluster.testing import eventually

PATIENCE = 60.0
KILLED, SUCCEEDED, QUEUED = 7, 5, 1


def array(text, most=0):
    ranges = [part.split("-") for part in text.split(",")]
    return {"elements": [{"first": int(part[0]), "last": int(part[-1])} for part in ranges], "most_at_once": most}


def pages(api, job, size=0):
    """The pages of the elements: (first, last, state, exit code)."""
    token, found = "", []
    while True:
        request = api.stubs.launcher.ListElementsRequest(job=job, page_size=size, page_token=token)
        page = api.api.ListElements(request, timeout=api.PATIENCE)
        state = api.stubs.job.JobState.Name
        found.append([(each.first, each.last, state(each.state).removeprefix("JOB_STATE_"), each.exit_code)
                      for each in page.elements])
        token = page.next_page_token
        if not token:
            return found


def elements(api, job):
    return sum(pages(api, job), [])


def refusal(call, *args, **fields):
    with pytest.raises(grpc.RpcError) as refused:
        call(*args, **fields)
    return refused.value.code(), refused.value.details()


def counts(api, job):
    status = api.get(job).array
    return status.waiting, status.running, status.succeeded, status.failed, status.killed


def test_each_element_runs_once_with_its_index(api, tmp_path):
    job = api.submit(["sh", "-c", f"mkdir {tmp_path}/$MUSTER_ARRAY_INDEX-$MUSTER_RANK && test $MUSTER_ARRAY_JOB_ID != $MUSTER_JOB_ID"],
                     size=2, request_array=array("0-4,7"), request_name="sweep")
    ended = api.wait(job)
    assert (ended.exit_code, ended.reason) == (0, "all 6 elements succeeded")
    assert counts(api, job) == (0, 0, 6, 0, 0)
    assert elements(api, job) == [(0, 4, "SUCCEEDED", 0), (7, 7, "SUCCEEDED", 0)]
    made = sorted(path.name for path in tmp_path.iterdir() if path.name[0].isdigit())
    assert made == [f"{index}-{rank}" for index in (0, 1, 2, 3, 4, 7) for rank in (0, 1)]
    changes = [event.element_changed for event in api.watch(job) if event.HasField("element_changed")]
    assert sorted(each.index for each in changes if each.state == SUCCEEDED) == [0, 1, 2, 3, 4, 7]
    listed = api.api.ListJobs(api.stubs.launcher.ListJobsRequest(all=True)).jobs
    assert [each.id for each in listed] == [job], "an array is one job"


def test_no_more_than_the_limit_run_at_once(api, tmp_path):
    script = f"mkdir {tmp_path}/run-$MUSTER_ARRAY_INDEX; ls -d {tmp_path}/run-* | wc -l; sleep 0.1; rmdir {tmp_path}/run-$MUSTER_ARRAY_INDEX"
    job = api.submit(["sh", "-c", script], request_array=array("0-7", most=2))
    assert api.wait(job).exit_code == 0
    seen = {int(api.output(f"{job}[{index}]")) for index in range(8)}
    assert seen <= {1, 2}, seen


def test_an_element_is_asked_by_its_name(api):
    job = api.submit(["sh", "-c", "echo $MUSTER_ARRAY_INDEX; exit $((MUSTER_ARRAY_INDEX * 3))"], request_array=array("0-2"))
    ended = api.wait(job)
    assert (ended.exit_code, ended.reason) == (3, "2 of its 3 elements failed: 1-2")
    assert elements(api, job) == [(0, 0, "SUCCEEDED", 0), (1, 1, "FAILED", 3), (2, 2, "FAILED", 6)]
    element = api.get(f"{job[:6]}[2]")
    assert (element.id, element.exit_code, element.element.array, element.element.index) == (f"{job}[2]", 6, job, 2)
    assert api.output(f"{job}[2]") == b"2\n"
    assert refusal(api.get, f"{job}[3]") == (grpc.StatusCode.NOT_FOUND, f"job {job} has no element 3; its elements are 0-2")
    code, message = refusal(api.output, job)
    assert (code, message) == (grpc.StatusCode.FAILED_PRECONDITION, f"job {job} is an array: name one element, as in {job}[0]")
    single = api.submit(["true"])
    api.wait(single)
    assert refusal(api.get, f"{single}[0]")[1] == f"job {single} is not an array, so it has no elements"
    for call in ("Hold", "Release", "UpdateJob", "Rerun"):
        request = getattr(api.stubs.launcher, f"{call}Request")(job=f"{job}[1]")
        assert "takes the whole array" in refusal(getattr(api.api, call), request)[1]


def test_one_element_can_be_killed(launcherd):
    api = launcherd(slots=1).client()
    job = api.submit(["sleep", "1000"], request_array=array("0-3"))
    assert eventually(lambda: counts(api, job)[:2] == (3, 1), PATIENCE)
    assert refusal(api.output, f"{job}[2]") == (grpc.StatusCode.FAILED_PRECONDITION, f"element 2 of job {job} has not started yet")
    waiting = api.get(f"{job}[2]")
    assert (waiting.id, waiting.state) == (f"{job}[2]", QUEUED)
    api.kill(f"{job}[2]")
    assert elements(api, job)[-2:] == [(2, 2, "KILLED", 143), (3, 3, "QUEUED", 0)]
    api.kill(f"{job}[0]", at_once=True)
    assert eventually(lambda: elements(api, job)[0][:3] == (0, 0, "KILLED"), PATIENCE)
    assert eventually(lambda: api.get(f"{job}[1]").HasField("started"), PATIENCE)
    assert "1 element runs, 1 element waits: needs 1 slot" in api.get(job).reason
    api.kill(job)
    assert api.wait(job).state == KILLED
    assert counts(api, job) == (0, 0, 0, 0, 4)


@pytest.mark.parametrize("fields, says", [
    ({"elements": []}, "array: there are no indexes"),
    ({"elements": [{"first": 3, "last": 1}]}, "array: the range 3-1 descends"),
    ({"elements": [{"first": 0, "last": 5}, {"first": 5, "last": 6}]}, "array: indexes must ascend"),
    ({"elements": [{"first": -1, "last": 5}]}, "array: indexes must be 0 to"),
    ({"elements": [{"first": 0, "last": 1_000_000}]}, "array: 1000001 elements are more than 1000000"),
    ({"elements": [{"first": 0, "last": 1}], "most_at_once": -1}, "array: the limit -1 is negative"),
])
def test_wrong_arrays_are_refused(api, fields, says):
    code, message = refusal(api.submit, ["true"], request_array=fields)
    assert code == grpc.StatusCode.INVALID_ARGUMENT and message.startswith(says), message


def test_pages_of_elements_make_sense(api):
    job = api.submit(["true"], request_array=array("0-2"), request_held=True)
    ask = api.api.ListElements
    request = api.stubs.launcher.ListElementsRequest
    assert refusal(ask, request(job=job, page_size=-1))[0] == grpc.StatusCode.INVALID_ARGUMENT
    assert refusal(ask, request(job=job, page_token="x"))[0] == grpc.StatusCode.INVALID_ARGUMENT
    assert refusal(ask, request(job="zzzzzzzz"))[0] == grpc.StatusCode.NOT_FOUND
    single = api.submit(["true"], request_held=True)
    assert refusal(ask, request(job=single))[0] == grpc.StatusCode.FAILED_PRECONDITION


def resident(process):
    fields = pathlib.Path(f"/proc/{process.pid}/status").read_text().split("VmRSS:")[1].split()
    return int(fields[0]) / 1024


def test_a_large_array_is_one_call_and_survives_a_kill(launcherd, tmp_path):
    """10,000 elements: one call to submit, pages to list, a kill -9 in the middle, one call to cancel."""
    daemon = launcherd(slots=4)
    api = daemon.client()
    marks = tmp_path / "marks"
    marks.mkdir()
    api.wait(api.submit(["true"]))
    before = resident(daemon.process)
    job = api.submit(["sh", "-c", f"mkdir {marks}/$MUSTER_ARRAY_INDEX"],
                     request_array=array("0-9999"))
    assert eventually(lambda: counts(api, job)[2] >= 40, PATIENCE)
    assert resident(daemon.process) - before < 50
    daemon.end("KILL")
    daemon = launcherd(slots=4)
    api = daemon.client()
    done = counts(api, job)[2]
    assert eventually(lambda: counts(api, job)[2] >= done + 40, PATIENCE)
    assert counts(api, job)[3] == 0, "mkdir fails where an element runs twice"
    few = pages(api, job, size=1)
    assert all(len(page) == 1 for page in few)
    listed = sum(few, [])
    assert listed[0][0] == 0 and listed[-1][1] == 9999
    assert all(one[1] + 1 == two[0] for one, two in zip(listed, listed[1:]))
    api.kill(job)
    ended = api.wait(job)
    assert (ended.state, ended.exit_code, ended.reason) == (KILLED, 143, "killed")
    waiting, running, succeeded, failed, killed = counts(api, job)
    assert (waiting, running, failed) == (0, 0, 0) and succeeded + killed == 10_000
    assert resident(daemon.process) - before < 50
    started = sum(1 for event in api.watch(job)
                  if event.HasField("element_changed") and not event.element_changed.HasField("exit_code"))
    made = len(list(marks.iterdir()))
    assert succeeded <= made <= started


def test_kills_lose_and_double_no_element(launcherd, tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()
    api = launcherd(slots=4).client()
    job = api.submit(["sh", "-c", f"sleep 0.0$((MUSTER_ARRAY_INDEX % 10)); mkdir {marks}/$MUSTER_ARRAY_INDEX"],
                     request_array=array("0-149", most=3))
    for so_far in (20, 60, 100):
        assert eventually(lambda: counts(api, job)[2] >= so_far, PATIENCE)
        launcherd.started[-1].end("KILL")
        api = launcherd(slots=4).client()
    ended = api.wait(job)
    assert (ended.exit_code, ended.reason) == (0, "all 150 elements succeeded"), "mkdir fails where an element runs twice"
    assert sorted(int(path.name) for path in marks.iterdir()) == list(range(150))


@pytest.mark.parametrize("signal", ["TERM", "KILL"])
def test_elements_run_on_without_launcherd(launcherd, tmp_path, signal):
    daemon = launcherd(slots=2)
    api = daemon.client()
    go = tmp_path / "go"
    job = api.submit(["sh", "-c", f"while ! test -e {go}; do sleep 0.05; done; mkdir {tmp_path}/e-$MUSTER_ARRAY_INDEX"],
                     request_array=array("0-3"))
    assert eventually(lambda: counts(api, job)[:2] == (2, 2), PATIENCE)
    daemon.end(signal)
    api = launcherd(slots=2).client()
    assert counts(api, job)[:2] == (2, 2)
    go.touch()
    assert api.wait(job).exit_code == 0
    assert len(list(tmp_path.glob("e-*"))) == 4


def test_an_array_is_forgotten_as_a_whole(launcherd):
    daemon = launcherd()
    api = daemon.client()
    job = api.submit(["true"], request_array=array("0-2"), request_retention={"seconds": 0})
    then = api.submit(["true"], request_after=[{"job": job}])
    api.wait(job)
    assert api.wait(then).exit_code == 0
    folders = daemon.state / "jobs"
    assert len(list(folders.iterdir())) == 4
    daemon.end()
    daemon = launcherd()
    assert eventually(lambda: [path.name for path in folders.iterdir()] == [then], PATIENCE)
    assert refusal(daemon.client().get, job)[0] == grpc.StatusCode.NOT_FOUND


def test_a_rerun_is_an_array_again(api):
    job = api.submit(["true"], request_array=array("0-2", most=1))
    api.wait(job)
    again = api.api.Rerun(api.stubs.launcher.RerunRequest(job=job), timeout=api.PATIENCE).job_id
    assert api.wait(again).reason == "all 3 elements succeeded"
    assert api.get(again).array.most_at_once == 1
