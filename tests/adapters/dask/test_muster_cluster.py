"""Muster's cluster of Dask: what distributed's tests of its own clusters check (test_subprocess.py, test_ssh.py,
test_spec_cluster.py, test_adaptive.py), and what is particular to Muster."""
import asyncio
import os

import pytest
from distributed import Client, Security
from distributed.utils_test import gen_test

from muster.adapters.dask import MusterCluster
from muster.client import AsyncClient, InvalidArgument, JobState, Unavailable
from muster.client import Client as Launcher

LOCAL = {"host": "127.0.0.1", "idle_timeout": "60s"}


def cluster_of(*arguments, **options):
    options.setdefault("scheduler_options", LOCAL)
    options.setdefault("memory", "400 MiB")
    return MusterCluster(*arguments, asynchronous=True, **options)


async def workers_of(client):
    return (await client.scheduler.identity(n_workers=-1))["workers"]


async def until(condition):
    for _ in range(600):  # 60 s
        if await condition():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("it never came true")


@gen_test(timeout=120)
async def test_basic():
    async with cluster_of(1) as cluster, Client(cluster, asynchronous=True) as client:
        assert await client.submit(lambda x: x + 1, 10) == 11
        assert cluster._supports_scaling and "Muster" in repr(cluster) and len(cluster.workers) == 1


@gen_test(timeout=120)
async def test_workers_are_jobs_and_end_with_the_cluster():
    async with cluster_of(2, priority=3) as cluster, Client(cluster, asynchronous=True) as client:
        await client.wait_for_workers(2)
        jobs = {worker.job_id for worker in cluster.workers.values()}
        assert set(await client.gather(client.map(lambda _: os.environ["MUSTER_JOB_ID"], range(20), pure=False))) == jobs
        async with AsyncClient() as launcher:
            found = [job async for job in launcher.jobs()]
            assert {job.id for job in found} == jobs and {job.name for job in found} == {"dask-worker-0", "dask-worker-1"}
            assert all(job.priority == 3 for job in found)
    async with AsyncClient() as launcher:
        assert (await launcher.list_jobs()).total == 0
        assert all([JobState((await launcher.get(job)).state).is_final for job in jobs])


@gen_test(timeout=120)
async def test_scale_up_and_down():
    async with cluster_of() as cluster, Client(cluster, asynchronous=True) as client:
        assert not cluster.workers
        cluster.scale(3)
        await client.wait_for_workers(3)
        assert len(cluster.workers) == 3
        cluster.scale(1)
        await cluster
        assert len(cluster.workers) == 1 and len(await workers_of(client)) == 1
        async with AsyncClient() as launcher:
            assert (await launcher.list_jobs()).total == 1  # the slots of the others are free again


@gen_test(timeout=120)
async def test_scale_by_cores_and_memory():
    async with cluster_of(cores=1, memory="300 MiB") as cluster, Client(cluster, asynchronous=True) as client:
        cluster.scale(cores=2)
        await client.wait_for_workers(2)
        cluster.scale(memory="900 MiB")
        await client.wait_for_workers(3)
        assert {worker["nthreads"] for worker in (await workers_of(client)).values()} == {1}
        assert {worker["memory_limit"] for worker in (await workers_of(client)).values()} == {300 << 20}


@gen_test(timeout=120)
async def test_adapt():
    async with cluster_of() as cluster, Client(cluster, asynchronous=True) as client:
        cluster.adapt(minimum=0, maximum=2, interval="100 ms", wait_count=2)
        assert await client.submit(lambda: 5) == 5

        async def are_gone():
            return not await workers_of(client)

        await until(are_gone)
        assert await client.submit(lambda: 6) == 6


@gen_test(timeout=120)
async def test_options_reach_the_workers():
    async with cluster_of(1, worker_options=["--resources", "GPU=2"], environment={**os.environ, "WORD": "mine"}) as cluster:
        async with Client(cluster, asynchronous=True) as client:
            assert await client.submit(lambda: os.environ["WORD"], resources={"GPU": 1}) == "mine"


@gen_test(timeout=120)
async def test_a_worker_whose_job_is_killed_is_replaced_by_scale():
    async with cluster_of(1) as cluster, Client(cluster, asynchronous=True) as client:
        await client.wait_for_workers(1)
        worker = cluster.workers[0]
        async with AsyncClient() as launcher:
            await launcher.kill(worker.job_id, at_once=True)
        await asyncio.wait_for(worker.finished(), 60)
        cluster.scale(0)
        await cluster
        cluster.scale(1)
        await client.wait_for_workers(1)
        assert await client.submit(lambda: 7) == 7 and cluster.workers[0].job_id != worker.job_id


@gen_test(timeout=120)
async def test_why_a_worker_has_failed(caplog):
    async with cluster_of(1, python="/nonexistent/python") as cluster:
        await asyncio.wait_for(cluster.workers[0].finished(), 60)
    assert any("has failed" in record.message and "/nonexistent/python" in record.message for record in caplog.records)


@gen_test(timeout=120)
async def test_a_worker_that_launcherd_refuses():
    with pytest.raises(InvalidArgument, match="elsewhere"):
        async with cluster_of(1, hosts=["elsewhere"]):
            pass


def test_from_a_thread_without_a_loop():
    with MusterCluster(1, memory="400 MiB", scheduler_options=LOCAL) as cluster, Client(cluster) as client:
        assert client.submit(sum, [1, 2]).result(timeout=60) == 3
    with Launcher() as launcher:
        assert launcher.list_jobs().total == 0


def test_wrong_arguments(tmp_path):
    with pytest.raises(InvalidArgument):
        MusterCluster(launcher_address="nonsense")
    with pytest.raises(Unavailable, match="no launcherd answers"):
        MusterCluster(1, launcher_address=f"unix:{tmp_path}/s", scheduler_options=LOCAL)
    with pytest.raises(ValueError, match="security: .* must be the path of a file"):
        MusterCluster(security=Security(tls_ca_file="x", tls_worker_cert="y", tls_worker_key="z", require_encryption=True))
