"""1,000 jobs of 50 submitters at the same time, watched by 200: each runs exactly once, and nobody misses an event."""
import concurrent.futures

JOBS = 1000
SUBMITTERS = 50
WATCHERS = 200


def test_every_accepted_job_runs_once(launcherd, tmp_path):
    daemon = launcherd(slots=8)
    api = daemon.client()
    marks = tmp_path / "marks"
    marks.mkdir()

    def submit(number):
        request = api.request(["mkdir", str(marks / str(number))], request_request_id=f"job-{number}")
        return {api.send(request), api.send(request)}  # every client asks twice

    def watch(job):
        events = list(api.watch(job))
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        assert events[-1].HasField("job_ended")
        return api.get(job).reason

    api.PATIENCE = 240
    with concurrent.futures.ThreadPoolExecutor(SUBMITTERS) as submitters, \
            concurrent.futures.ThreadPoolExecutor(WATCHERS) as watchers:
        answers = list(submitters.map(submit, range(JOBS)))
        assert all(len(ids) == 1 for ids in answers)
        jobs = [ids.pop() for ids in answers]
        assert len(set(jobs)) == JOBS
        reasons = list(watchers.map(watch, jobs))
    assert set(reasons) == {"all ranks ended with exit code 0"}  # mkdir fails the second time
    assert len(list(marks.iterdir())) == JOBS


def test_one_job_has_many_watchers(launcherd):
    api = launcherd(slots=8).client()
    job = api.submit(["true"], size=8)
    with concurrent.futures.ThreadPoolExecutor(WATCHERS) as watchers:
        seen = list(watchers.map(lambda _: tuple(event.sequence for event in api.watch(job)), range(WATCHERS)))
    assert len(set(seen)) == 1
