"""A cluster of Dask whose workers are jobs of launcherd.

    from dask.distributed import Client
    from muster.adapters.dask import MusterCluster

    with MusterCluster(cores=4, memory="8 GiB") as cluster, Client(cluster) as client:
        cluster.scale(10)                    # or cluster.adapt(minimum=1, maximum=20)
        print(client.submit(sum, [1, 2]).result())

The scheduler runs in this process. Each worker is one job of one rank, so launcherd's queue, priorities and limits hold for
it. Workers connect to the scheduler, so its host must be one that they reach: scheduler_options={"host": "head"}.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import Any, Dict, List, Mapping, Optional, Sequence

import dask.config
from distributed.core import Status
from distributed.deploy.spec import ProcessInterface, SpecCluster
from distributed.scheduler import Scheduler
from distributed.security import Security

from muster import client as api

_LOG = logging.getLogger(__name__)
_END_PATIENCE = 60.0  # seconds for a job to end, beyond its own grace time


class _Connection:
    """The client of launcherd that the workers of one cluster share. It belongs to the cluster's event loop."""

    def __init__(self, launcher: Optional[str]) -> None:
        self._launcher = launcher
        self._client: Optional[api.AsyncClient] = None

    def client(self) -> api.AsyncClient:
        if self._client is None:
            self._client = api.AsyncClient(self._launcher)
        return self._client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()


def _tls_options(security: Optional[Security]) -> List[str]:
    """Returns a worker's options for the files of TLS. Raises ValueError if a certificate is no file."""
    options = []
    for name, value in (security.get_tls_config_for_role("worker") if security else {}).items():
        if value is None or name in ("ciphers", "min_version", "max_version"):
            continue
        if not isinstance(value, str) or not os.path.exists(value):
            raise ValueError(f"security: {name} must be the path of a file that all hosts see")
        options += [f"--{name.replace('_', '-')}", value]
    return options


class MusterWorker(ProcessInterface):
    """A worker of Dask in a job of launcherd. For MusterCluster, which makes it.

    start() returns when launcherd has the job; the worker comes when slots are free. close() returns when the job has
    ended. If the job ends by itself, its reason is logged."""

    def __init__(self, scheduler: str, *, name: Any, connection: _Connection, nthreads: int = 1, memory_limit: str = "auto",
                 python: str = sys.executable, worker_options: Sequence[str] = (), job: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(scheduler=scheduler, name=name)
        self.name = name
        self.job_id: Optional[str] = None
        self._connection = connection
        self._job = dict(job or {})
        self._command = [python, "-m", "distributed.cli.dask_worker", scheduler, "--name", str(name), "--nthreads", str(nthreads),
                         "--memory-limit", str(memory_limit), "--no-dashboard", *worker_options]
        self._end: Optional[asyncio.Task[None]] = None

    async def start(self) -> None:
        client = self._connection.client()
        self.job_id = await client.submit(self._command, **{"name": f"dask-worker-{self.name}", **self._job})
        self._end = asyncio.ensure_future(self._watch(client, self.job_id))
        await super().start()

    async def _watch(self, client: api.AsyncClient, job: str) -> None:
        try:
            ended = await client.wait(job)
            if api.JobState(ended.state) not in (api.JobState.SUCCEEDED, api.JobState.KILLED):
                _LOG.error("worker %s: job %s has failed: %s", self.name, job, ended.reason)
        except api.Cancelled:
            return
        except api.MusterError as why:
            _LOG.error("worker %s: job %s cannot be followed: %s", self.name, job, why)
        await super().close()

    async def close(self) -> None:
        if self.job_id is not None and self._end is not None and not self._end.done():
            try:
                await self._connection.client().kill(self.job_id)
            except api.FailedPrecondition:
                pass  # it has ended
            await asyncio.wait([self._end], timeout=_END_PATIENCE)
        if self.status != Status.closed:
            await super().close()


class MusterCluster(SpecCluster):
    """A scheduler in this process, with workers in jobs of launcherd.

    Threads: as distributed's clusters. Errors: those of muster.client if launcherd refuses a worker; distributed passes
    them on from the constructor, and logs them after scale() and adapt()."""

    def __init__(self, n_workers: int = 0, *, cores: int = 1, memory: str = "auto", launcher_address: Optional[str] = None,
                 hosts: Sequence[str] = (), priority: int = 0, walltime: Optional[float] = None,
                 environment: Optional[Mapping[str, str]] = None, spec: Optional[api.JobSpec] = None, python: str = sys.executable,
                 worker_options: Sequence[str] = (), scheduler_options: Optional[Mapping[str, Any]] = None,
                 security: Optional[Security] = None, **options: Any) -> None:
        """`n_workers`: workers at the beginning. `cores`: threads of a worker; with more than one the worker gets as many
        cores as its own. `memory`: of a worker, as "8 GiB"; launcherd does not count it.
        `launcher_address`: that of launcherd; by default as the command `muster` finds it. `hosts`: "n1:4" and the like,
        of launcherd's list; by default any. `priority`: higher runs first. `walltime`: seconds that a worker's job may run.
        `environment`: what workers get beside their host's log-in environment; by default the variables of this process.
        `spec`: more about the jobs. `python`: on the workers' hosts. `worker_options`: words for `dask worker`.
        `scheduler_options`: of distributed.Scheduler. `security`: with files that all hosts see.
        The other options are those of distributed.SpecCluster."""
        self._connection = _Connection(launcher_address)
        api.find_address(launcher_address)  # fails here, if at all
        given = os.environ if environment is None else environment
        variables = {name: value for name, value in given.items() if not name.startswith("MUSTER_")}
        variables["DASK_INTERNAL_INHERIT_CONFIG"] = dask.config.serialize(dask.config.global_config)
        binding = api.JobSpec(bind_to="depth", depth=cores) if cores > 1 else api.JobSpec()
        if spec is not None:
            binding.MergeFrom(spec)
        job: Dict[str, Any] = {"size": 1, "hosts": list(hosts), "priority": priority, "timeout": walltime,
                               "environment": variables, "spec": binding}
        worker = {"cls": MusterWorker,
                  "options": {"connection": self._connection, "nthreads": cores, "memory_limit": memory, "python": python,
                              "worker_options": [*worker_options, *_tls_options(security)], "job": job}}
        scheduler = {"cls": Scheduler,
                     "options": {"dashboard": False, "dashboard_address": ":0", "security": security, "port": 0,
                                 "protocol": "tls://" if security else "tcp://", **(scheduler_options or {})}}
        options.setdefault("name", "MusterCluster")
        super().__init__(workers={number: worker for number in range(n_workers)}, scheduler=scheduler, worker=worker,
                         security=security, **options)

    async def _close(self) -> None:
        await super()._close()
        await self._connection.close()
