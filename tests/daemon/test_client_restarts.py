"""muster.client while its launcherd is killed or ends, and another one takes over: nothing is lost and nothing doubled."""
import asyncio
import threading

import pytest
from test_client import PATH, client_of, run, until

from muster.client import AsyncClient, FailedPrecondition, JobState, job_request

LINES = 300
COUNTS = ["sh", "-c", f"i=0; while [ $i -lt {LINES} ]; do i=$((i + 1)); echo $i; sleep 0.01; done"]
CUTS = 2


class Restarts:
    """A launcherd that ends when it is told to, and starts again in a thread of its own."""

    def __init__(self, launcherd, signal, **options):
        self.launcherd, self.signal, self.options = launcherd, signal, options
        self.daemon = launcherd(**options)
        self.thread = None

    def cut(self):
        """Ends launcherd, and begins to start the next one."""
        self.join()
        self.daemon.end(self.signal)
        self.thread = threading.Thread(target=self.start)
        self.thread.start()

    def start(self):
        self.daemon = self.launcherd(**self.options)

    def join(self):
        if self.thread is not None:
            self.thread.join(timeout=60)
            assert not self.thread.is_alive()


@pytest.fixture(params=["KILL", "TERM"])
def restarts(launcherd, request):
    """restarts(**options of launcherd)"""
    made = []

    def start(**options):
        made.append(Restarts(launcherd, request.param, **options))
        return made[-1]

    yield start
    for one in made:
        one.join()


def requests(cut, count=120, at=60):
    """Requests; `cut` is called in their middle, while others are under way."""
    for number in range(count):
        if number == at:
            cut()
        yield job_request(["true"], environment=PATH, name=f"job-{number}")


def check_submitted(client, results):
    names = {job.id: job.name for job in client.jobs(filter="job-")}
    assert [names.get(result, result) for result in results] == [f"job-{number}" for number in range(120)]
    assert len(names) == len(results)


def blocked(client):
    """A job that keeps all others waiting."""
    job = run(client, "sleep", "1000", name="blocker")
    until(client, job, JobState.RUNNING)
    return job


def test_submissions(restarts):
    life = restarts(slots=1)
    with client_of(life.daemon) as client:
        blocker = blocked(client)
        check_submitted(client, client.submit_many(requests(life.cut), window=30))
        client.kill(blocker, at_once=True)


def test_stacks_and_history(restarts):
    """The client asks again for both. The next launcherd may answer before its agents are back."""

    def is_seen():
        try:
            return any(process.pid for process in client.stacks(job))
        except FailedPrecondition:
            return False

    life = restarts(slots=1)
    with client_of(life.daemon) as client:
        job = blocked(client)
        life.cut()
        while not is_seen():
            pass
        life.cut()
        assert [host.host for host in client.history(job).hosts] == ["localhost"]
        client.kill(job, at_once=True)


def test_submissions_of_tasks(restarts):
    life = restarts(slots=1)

    async def submit():
        async with AsyncClient(f"unix:{life.daemon.socket}") as client:
            await client.capabilities()
            free, begun = asyncio.Semaphore(30), 0

            async def one(request):
                nonlocal begun
                async with free:
                    begun += 1
                    if begun == 60:
                        await asyncio.to_thread(life.cut)
                    return await client.submit(request)

            return await asyncio.gather(*(one(request) for request in requests(None, at=-1)))

    with client_of(life.daemon) as client:
        blocker = blocked(client)
        check_submitted(client, asyncio.run(submit()))
        client.kill(blocker, at_once=True)


class Readers:
    """Reads events and output of a job, and cuts the launcher's life CUTS times while the output comes."""

    def __init__(self, life):
        self.life, self.cuts = life, 0
        self.output = {0: b"", 1: b""}
        self.events = []

    def take(self, chunk):
        self.output[chunk.rank] += chunk.data
        lines = len(self.output[0].splitlines())
        if self.cuts < CUTS and lines > LINES * (self.cuts + 1) // (CUTS + 2):
            self.cuts += 1
            self.life.cut()

    def check(self, job):
        whole = b"".join(b"%d\n" % number for number in range(1, LINES + 1))
        assert self.cuts == CUTS and self.output == {0: whole, 1: whole}
        assert [event.sequence for event in self.events] == list(range(1, job.last_event + 1))
        assert (JobState(job.state), job.exit_code, job.attempt) == (JobState.SUCCEEDED, 0, 0)


def test_events_and_output(restarts):
    life = restarts()
    readers = Readers(life)
    with client_of(life.daemon) as client:
        job = client.submit(COUNTS, environment=PATH, size=2)
        watcher = threading.Thread(target=lambda: readers.events.extend(client.watch(job)))
        watcher.start()
        for chunk in client.logs(job, follow=True):
            readers.take(chunk)
        watcher.join(timeout=60)
        life.join()
        readers.check(client.wait(job, timeout=60))


def test_events_and_output_in_tasks(restarts):
    life = restarts()
    readers = Readers(life)

    async def follow():
        async with AsyncClient(f"unix:{life.daemon.socket}") as client:
            job = await client.submit(COUNTS, environment=PATH, size=2)

            async def watch():
                async for event in client.watch(job):
                    readers.events.append(event)

            watcher = asyncio.ensure_future(watch())
            async for chunk in client.logs(job, follow=True):
                await asyncio.to_thread(readers.take, chunk)
            await asyncio.wait_for(watcher, 60)
            return await client.wait(job, timeout=60)

    readers.check(asyncio.run(follow()))
