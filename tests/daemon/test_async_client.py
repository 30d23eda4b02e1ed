"""muster.client's AsyncClient against a launcherd. test_client.py has the calls, which are the same."""
import asyncio

import pytest
from test_client import PATH

from muster.client import (AsyncClient, Cancelled, DeadlineExceeded, InvalidArgument, JobState, NotFound, SubmitRequest,
                           Unavailable, job_request)


@pytest.fixture
def in_loop(launcherd):
    """in_loop(function of a client)"""
    daemon = launcherd()

    def call(work, **options):
        async def main():
            async with AsyncClient(f"unix:{daemon.socket}", **options) as client:
                return await asyncio.wait_for(work(client), 100)

        return asyncio.run(main())

    return call


def test_a_job_from_its_submission_to_its_end(in_loop):
    async def work(client):
        job = await client.submit(["sh", "-c", "echo out; exit 3"], environment=PATH, size=2, name="night")
        ended = await client.wait(job, timeout=60)
        assert (ended.name, ended.exit_code, JobState(ended.state)) == ("night", 3, JobState.FAILED)
        assert [event.sequence async for event in client.watch(job)] == list(range(1, ended.last_event + 1))
        assert b"".join([chunk.data async for chunk in client.logs(job)]) == b"out\nout\n"
        assert [each.id async for each in client.jobs(all=True)] == [job]
        assert (await client.list_jobs(all=True, page_size=1)).total == 1
        again = await client.rerun(job)
        assert (await client.wait(again)).exit_code == 3

    in_loop(work)


def test_calls_at_the_same_time(in_loop):
    async def work(client):
        jobs = await asyncio.gather(*(client.submit(["true"], environment=PATH, held=True) for _ in range(50)))
        assert len(set(jobs)) == 50
        await asyncio.gather(*(client.release(job) for job in jobs))
        ended = await asyncio.gather(*(client.wait(job) for job in jobs))
        assert [job.exit_code for job in ended] == [0] * 50
        results = await client.submit_many([job_request(["true"], environment=PATH), SubmitRequest()] * 2, window=2)
        assert [isinstance(result, InvalidArgument) for result in results] == [False, True] * 2
        await client.wait(results[0])
        await client.wait(results[2])

    in_loop(work)


def test_the_other_calls(in_loop):
    async def work(client):
        job = await client.submit(["sh", "-c", 'trap "exit 7" USR1; echo; while :; do sleep 0.05; done'], environment=PATH)
        async with client.logs(job, follow=True) as chunks:
            async for _ in chunks:
                break
        await client.signal(job, "USR1")
        assert (await client.wait(job)).exit_code == 7
        endless = await client.submit(["sleep", "1000"], environment=PATH, held=True)
        await client.hold(endless)
        await client.kill(endless, at_once=True)
        assert JobState((await client.wait(endless)).state) == JobState.KILLED
        assert (await client.drain("localhost", "why")).drained and not (await client.resume("localhost")).drained
        job = await client.submit(["sleep", "1000"], environment=PATH)
        async for event in client.watch(job):
            if event.HasField("job_state_changed") and event.job_state_changed.state == JobState.RUNNING:
                break
        assert [process.rank for process in await client.stacks(job)] == [0]
        assert (await client.hang(job)).size == 1
        assert [host.host for host in (await client.history(job)).hosts] == ["localhost"]
        await client.kill(job, at_once=True)
        report, = await client.cleanup(dry_run=True, job="aaaaaaaa")
        assert (report.host, report.unreachable) == ("localhost", "")
        assert [host.name for host in await client.hosts()] == ["localhost"] and (await client.capabilities()).pid
        with pytest.raises(NotFound):
            await client.resize("aaaaaaaa", 2)
        with pytest.raises(NotFound):
            await client.get("aaaaaaaa")
        with pytest.raises(InvalidArgument) as error:
            await client.submit(["true"], size=9)
        assert error.value.field == "spec.size"

    in_loop(work)


def test_waiting_has_an_end(in_loop):
    """By a limit, by the task's cancellation, by close() of the stream and of the client."""
    async def work(client):
        job = await client.submit(["sleep", "1000"], environment=PATH)
        with pytest.raises(DeadlineExceeded, match="has not ended within 0.2 s"):
            await client.wait(job, timeout=0.2)
        waiter = asyncio.ensure_future(client.wait(job))
        await client.capabilities()
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        events = client.watch(job)
        seen = asyncio.Event()

        async def read():
            async for _ in events:
                seen.set()
            return "closed"

        reader = asyncio.ensure_future(read())
        await seen.wait()
        events.close()
        assert await reader == "closed"
        other = AsyncClient(client.launcher)
        waiter = asyncio.ensure_future(other.wait(job))
        await other.capabilities()
        await other.close()
        with pytest.raises(Cancelled):
            await waiter
        with pytest.raises(Cancelled):
            await other.get(job)
        await client.kill(job, at_once=True)
        await client.wait(job)

    in_loop(work)


def test_nobody_is_there(tmp_path):
    async def main():
        async with AsyncClient(f"unix:{tmp_path}/launcherd.sock", connect_for=0.3) as client:
            with pytest.raises(Unavailable, match="no launcherd answers at"):
                await client.submit(["true"])
            with pytest.raises(Unavailable, match="no launcherd answers at"):
                async for _ in client.watch("aaaaaaaa"):
                    pass

    asyncio.run(main())


def test_a_command_beside_a_rank(in_loop):
    async def work(client):
        job = await client.submit(["sleep", "1000"], environment=PATH)
        while (await client.get(job)).state != JobState.RUNNING:
            await asyncio.sleep(0.02)
        content = bytes(range(256)) * 4000
        results = await asyncio.gather(*(client.exec(job, ["sh", "-c", f"cat; exit {n}"], input=content) for n in range(5)))
        assert [(each.exit_code, each.stdout) for each in results] == [(n, content) for n in range(5)]
        assert (await client.exec(job, ["true"], input=content)).exit_code == 0
        with pytest.raises(NotFound):
            await client.exec("zzzzzzzz", ["true"])
        with pytest.raises(DeadlineExceeded):
            await client.exec(job, ["sleep", "1000"], timeout=0.5)
        await client.kill(job, at_once=True)
        await client.wait(job)

    in_loop(work)
