"""A provider of Parsl that starts blocks of workers as jobs of launcherd.

    from muster.adapters.parsl import MusterProvider
    from parsl import Config
    from parsl.executors import HighThroughputExecutor

    config = Config(executors=[HighThroughputExecutor(provider=MusterProvider(nodes_per_block=4, cores_per_node=32))])

A block is one job. launcherd starts its workers on the block's hosts, so a launcher of Parsl is not needed. The output of a
block comes back through launcherd, so no shared file system is needed for it.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

from muster import client as api
from parsl.jobs.states import JobState, JobStatus
from parsl.providers.base import ExecutionProvider
from parsl.providers.errors import SubmitException
from parsl.utils import RepresentationMixin

_TIME_LIMIT = 124  # exit code of a job that launcherd has ended because of its time
_WALLTIME = re.compile(r"(\d+):([0-5]?\d):([0-5]?\d)")


def seconds_of(walltime: str) -> int:
    """Returns the seconds of "HH:MM:SS". Raises ValueError."""
    found = _WALLTIME.fullmatch(walltime)
    if found is None:
        raise ValueError(f"walltime: {walltime!r} is no time; write HH:MM:SS")
    hours, minutes, seconds = (int(part) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


def state_of(job: api.Job) -> JobState:
    """Returns Parsl's state of a job."""
    state = api.JobState(job.state)
    if state is api.JobState.SUCCEEDED:
        return JobState.COMPLETED
    if state is api.JobState.KILLED:
        return JobState.CANCELLED
    if state.is_final:
        return JobState.FAILED
    if job.held:
        return JobState.HELD
    return JobState.RUNNING if state in (api.JobState.RUNNING, api.JobState.STOPPING) else JobState.PENDING


class MusterProvider(ExecutionProvider, RepresentationMixin):
    """Starts blocks as jobs of launcherd.

    Threads: any may call the methods. Errors: SubmitException from submit(); the exceptions of muster.client from the
    others, which Parsl logs."""

    def __init__(self, *, launcher_address: Optional[str] = None, nodes_per_block: int = 1, cores_per_node: Optional[int] = None,
                 gpus_per_node: Optional[int] = None, hosts: Sequence[str] = (), init_blocks: int = 1, min_blocks: int = 0,
                 max_blocks: int = 1, parallelism: float = 1, walltime: Optional[str] = None, priority: int = 0,
                 worker_init: str = "", environment: Optional[Mapping[str, str]] = None) -> None:
        """`launcher_address`: that of launcherd; by default as the command `muster` finds it.
        `cores_per_node`: cores that the workers of a node get as their own; by default they may use all cores.
        `hosts`: "n1:4" and the like, of launcherd's list; by default any. `walltime`: "HH:MM:SS"; by default no limit.
        `priority`: higher runs first. `worker_init`: lines of bash before the workers start. `environment`: what the workers
        get beside their host's log-in environment; by default the variables of this process.
        The other arguments are those of Parsl's providers."""
        self.launcher_address = launcher_address
        self.nodes_per_block = nodes_per_block
        self.cores_per_node = cores_per_node
        self.gpus_per_node = gpus_per_node
        self.mem_per_node = None
        self.hosts = hosts
        self.init_blocks = init_blocks
        self.min_blocks = min_blocks
        self.max_blocks = max_blocks
        self.parallelism = parallelism
        self.walltime = walltime
        self.priority = priority
        self.worker_init = worker_init
        self.environment = environment
        self.script_dir: Optional[str] = None
        self.resources: Dict[object, Any] = {}  # ids of jobs: {"status", "path"}
        self._timeout = None if walltime is None else seconds_of(walltime)
        self._client = api.Client(launcher_address)

    def _variables(self) -> Dict[str, str]:
        """Returns the workers' variables. Those of a rank, in which Parsl may run, stay out."""
        given = os.environ if self.environment is None else self.environment
        return {name: value for name, value in given.items() if not name.startswith("MUSTER_")}

    def _spec(self, tasks_per_node: int) -> api.JobSpec:
        # Workers count the cores themselves, so they may use all that launcherd does not give to others.
        spec = api.JobSpec(bind_to="none", gpu_bind="none" if self.gpus_per_node is None else "one")
        if self.cores_per_node is not None:
            spec.bind_to, spec.depth = "depth", max(self.cores_per_node // tasks_per_node, 1)
        if self.gpus_per_node is not None:
            spec.gpus_per_rank = max(self.gpus_per_node // tasks_per_node, 1)
        return spec

    def submit(self, command: str, tasks_per_node: int, job_name: str = "parsl.muster") -> str:
        """Starts `command`, a line of bash, tasks_per_node times on each node of a block. Returns the job's id. Raises
        SubmitException."""
        script = f"{self.worker_init}\n"
        if self.cores_per_node is not None:
            script += f"export PARSL_CORES={max(self.cores_per_node // tasks_per_node, 1)}\n"
        try:
            job = self._client.submit(["/bin/bash", "-c", f"{script}{command}"], name=job_name[:128],
                                      size=tasks_per_node * self.nodes_per_block, ranks_per_host=tasks_per_node,
                                      hosts=list(self.hosts), priority=self.priority, timeout=self._timeout,
                                      environment=self._variables(), spec=self._spec(tasks_per_node))
        except api.MusterError as why:
            raise SubmitException(job_name, why.message) from why
        place = self.script_dir or os.getcwd()
        self.resources[job] = {"status": JobStatus(JobState.PENDING),
                               "path": os.path.abspath(os.path.join(place, f"{job_name}.{job}"))}
        return job

    def status(self, job_ids: Sequence[object]) -> List[JobStatus]:
        """Returns the states of jobs, in the order of their ids. Writes the output of those that have ended to files."""
        return [self._status(str(job)) for job in job_ids]

    def _status(self, job: str) -> JobStatus:
        known = self.resources[job]
        if not known["status"].terminal:
            known["status"] = self._ask(job, known["path"])
        status: JobStatus = known["status"]
        return status

    def _ask(self, job: str, path: str) -> JobStatus:
        try:
            now = self._client.get(job, ranks=False)
        except api.NotFound as why:
            return JobStatus(JobState.FAILED, message=why.message)  # launcherd has forgotten it
        state = state_of(now)
        message = None if state in (JobState.COMPLETED, JobState.RUNNING) else now.reason or None
        if not api.JobState(now.state).is_final:
            return JobStatus(state, message=message)
        if now.exit_code == _TIME_LIMIT and self._has_no_root_cause(job):
            state = JobState.TIMEOUT
        self._write_output(job, path)
        code = now.exit_code if now.HasField("exit_code") else None
        return JobStatus(state, message=message, exit_code=code, stdout_path=f"{path}.out", stderr_path=f"{path}.err")

    def _has_no_root_cause(self, job: str) -> bool:
        """Returns False if a rank has ended the job, perhaps with a code that launcherd uses as well."""
        reports = [event.job_ended for event in self._client.watch(job) if event.HasField("job_ended")]
        return not reports or reports[-1].root_cause_rank < 0

    def _write_output(self, job: str, path: str) -> None:
        with open(f"{path}.out", "wb") as out, open(f"{path}.err", "wb") as err:
            files = {1: out, 2: err}
            for chunk in self._client.logs(job):
                if chunk.data:
                    files[chunk.stream].write(chunk.data)

    def cancel(self, job_ids: Sequence[object]) -> List[bool]:
        """Ends jobs: SIGTERM, and SIGKILL after their grace time. Returns for each whether it has ended or will end."""
        return [self._cancel(str(job)) for job in job_ids]

    def _cancel(self, job: str) -> bool:
        try:
            self._client.kill(job)
        except api.FailedPrecondition:
            pass  # it has ended
        except api.MusterError:
            return False
        return True

    @property
    def label(self) -> str:
        return "muster"

    @property
    def status_polling_interval(self) -> int:
        """Seconds between two calls of status()."""
        return 2
