"""An executor of PSI/J that submits to launcherd.

    from psij import Job, JobExecutor, JobSpec, ResourceSpecV1

    executor = JobExecutor.get_instance("muster")       # url="head:7400" for a launcherd elsewhere
    job = Job(JobSpec("/usr/bin/python3", ["train.py"], resources=ResourceSpecV1(process_count=8)))
    executor.submit(job)
    print(job.wait())

launcherd starts the processes itself, so `launcher` stays unset; "single" starts one process. Attributes that are named
"muster.FIELD" set a field of muster.client.JobFields: {"muster.hosts": ["n1:4"], "muster.priority": 3}.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from psij import (InvalidJobException, Job, JobExecutor, JobExecutorConfig, JobSpec, JobState, JobStatus, ResourceSpecV1,
                  SubmitException)

if TYPE_CHECKING:
    from muster import client as api

_LOG = logging.getLogger(__name__)
_ONE_PROCESS = "single"
_OURS = (None, "muster", "multiple", "mpirun", _ONE_PROCESS)
_PREFIX = "muster."
_TIME_LIMIT = 124  # exit code of a job that launcherd has ended because of its time

# Variables that stay without inherit_environment: what launcherd gives ranks, so that they find each other.
_OF_RANKS = ("MUSTER_* | HOROVOD_* | PMI_* | PMIX_* | OMPI_* | RANK | LOCAL_RANK | WORLD_SIZE | LOCAL_WORLD_SIZE | "
             "GROUP_RANK | MASTER_ADDR | MASTER_PORT")
# $1 to $5 are the job's scripts and files, or empty. $6 is "one" or "all": one rank writes its files anew. $7 is "all", or
# the names of the variables to keep. A failed redirection ends the shell, which says why on the job's stderr.
_SCRIPT = f"""
pre=$1 post=$2 in=$3 out=$4 err=$5 ranks=$6 keep=$7
shift 7
if [ "$keep" != all ]; then
  for name in $(compgen -e); do
    case $name in
      {_OF_RANKS}) ;;
      *) case " $keep " in *" $name "*) ;; *) unset "$name" ;; esac ;;
    esac
  done
fi
[ -z "$in" ] || exec <"$in" || exit 1
if [ "$ranks" = one ]; then
  [ -z "$out" ] || exec >"$out" || exit 1
  [ -z "$err" ] || exec 2>"$err" || exit 1
else
  [ -z "$out" ] || exec >>"$out" || exit 1
  [ -z "$err" ] || exec 2>>"$err" || exit 1
fi
[ -z "$pre" ] || . "$pre" || exit
[ -n "$post" ] || exec "$@"
"$@"
code=$?
. "$post"
exit $code
"""


def _text(path: Optional[Path]) -> str:
    return "" if path is None else str(path)


def _command(spec: JobSpec, size: int) -> List[str]:
    """Returns the words that each rank runs."""
    if not spec.executable:
        raise InvalidJobException("executable: is not set")
    words = [spec.executable, *(spec.arguments or [])]
    files = [spec.pre_launch, spec.post_launch, spec.stdin_path, spec.stdout_path, spec.stderr_path]
    if spec.post_launch is not None and size > 1:
        raise InvalidJobException("post_launch: would run once in each process, because launcherd starts them; use it with "
                                  "one process")
    if spec.inherit_environment and not any(files):
        return words
    keep = "all" if spec.inherit_environment else " ".join(spec.environment or ())
    return ["/bin/bash", "-c", _SCRIPT, "psij", *map(_text, files), "one" if size == 1 else "all", keep, *words]


def _resources(spec: JobSpec) -> Dict[str, Any]:
    """Returns fields of the job, and of its JobSpec below "spec"."""
    resources = spec.resources
    if not isinstance(resources, ResourceSpecV1):
        raise InvalidJobException("resources: only version 1 of resource specifications is known")
    if resources.exclusive_node_use:
        raise InvalidJobException('exclusive_node_use: launcherd shares hosts by slots; ask for all slots of hosts by the '
                                  'attribute "muster.hosts"')
    if resources.memory:
        _LOG.warning("memory: launcherd does not count memory, so it does not reserve any")
    size = 1 if spec.launcher == _ONE_PROCESS else resources.computed_process_count
    fields: Dict[str, Any] = {"size": size, "spec": {}}
    if spec.launcher != _ONE_PROCESS and (resources.node_count or resources.processes_per_node):
        fields["ranks_per_host"] = resources.computed_processes_per_node
    if resources.cpu_cores_per_process:
        fields["spec"].update(bind_to="depth", depth=resources.cpu_cores_per_process)
    if resources.gpu_cores_per_process:
        fields["spec"].update(gpus_per_rank=resources.gpu_cores_per_process, gpu_bind="one")
    return fields


def _attributes(spec: JobSpec) -> Dict[str, Any]:
    attributes = spec.attributes
    for name in ("queue_name", "reservation_id"):
        if getattr(attributes, name) is not None:
            raise InvalidJobException(f"{name}: launcherd has one queue, and no reservations")
    fields: Dict[str, Any] = {"timeout": attributes.duration.total_seconds()}
    if attributes.account is not None:
        fields["labels"] = {"account": attributes.account}
    for name, value in (attributes.custom_attributes or {}).items():
        if name.startswith(_PREFIX):
            fields[name[len(_PREFIX):]] = value
    return fields


def request_of(spec: JobSpec) -> api.SubmitRequest:
    """Returns the submission of a job. Raises InvalidJobException, which names the property of the specification."""
    from muster import client as api

    if spec.launcher not in _OURS:
        raise InvalidJobException(f"launcher: launcherd starts the processes itself, without {spec.launcher!r}: leave it unset")
    fields = {**_resources(spec), **_attributes(spec)}
    fields["spec"] = api.JobSpec(**fields["spec"])
    # psij names a job after its executable, which may be longer than launcherd's names.
    fields.setdefault("name", (spec.name or "").encode()[:128].decode(errors="ignore"))
    try:
        return api.job_request(_command(spec, fields["size"]), environment=spec.environment or {},
                               working_directory=_text(spec.directory) or None, **fields)
    except api.InvalidArgument as why:
        raise InvalidJobException(why.message, why) from why


def status_of(event: api.Event) -> Optional[JobStatus]:
    """Returns the status that an event of launcherd brings, or None."""
    from muster import client as api

    when = event.time.seconds + event.time.nanos / 1e9
    if not event.HasField("job_state_changed"):
        return None
    change = event.job_state_changed
    states = {api.JobState.QUEUED: JobState.QUEUED, api.JobState.RUNNING: JobState.ACTIVE}
    state = states.get(api.JobState(change.state))
    return None if state is None else JobStatus(state, time=when, message=change.reason or None)


def final_status_of(job: api.Job) -> JobStatus:
    """Returns the status of a job that has ended."""
    from muster import client as api

    state = api.JobState(job.state)
    code = job.exit_code if job.HasField("exit_code") else None
    final = JobState.FAILED
    if state is api.JobState.SUCCEEDED:
        final = JobState.COMPLETED
    elif state is api.JobState.KILLED and code != _TIME_LIMIT:
        final = JobState.CANCELED
    return JobStatus(final, time=job.ended.seconds + job.ended.nanos / 1e9, message=job.reason or None, exit_code=code)


class _Watcher:
    """Follows jobs in a thread of its own, which also runs the callbacks of their states.

    Thread: follow() may be called from any. The thread ends with the process."""

    def __init__(self, launcher: str) -> None:
        self._launcher = launcher
        self._loop = asyncio.new_event_loop()
        self._client: Future[api.AsyncClient] = Future()
        threading.Thread(target=self._run, name="muster-psij", daemon=True).start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.create_task(self._connect())
        self._loop.run_forever()

    async def _connect(self) -> None:
        from muster import client as api

        self._client.set_result(api.AsyncClient(self._launcher))

    def follow(self, executor: MusterJobExecutor, job: Job) -> None:
        asyncio.run_coroutine_threadsafe(self._report(executor, job), self._loop)

    async def _report(self, executor: MusterJobExecutor, job: Job) -> None:
        """Sets the states of a job until it has ended. A job whose end nobody can tell has failed."""
        native = job.native_id or ""
        client = self._client.result()
        try:
            async for event in client.watch(native):
                status = status_of(event)
                if status is not None:
                    executor._set_job_status(job, status)
            final = final_status_of(await client.get(native, ranks=False))
        except Exception as why:  # a thread of its own has nobody to raise it to
            _LOG.exception("job %s cannot be followed", native)
            final = JobStatus(JobState.FAILED, message=f"job {native} cannot be followed: {why}")
        executor._set_job_status(job, final)


class MusterJobExecutor(JobExecutor):
    """Submits jobs to launcherd. The `url` is its address; by default the one that the command `muster` would ask.

    Threads: any may use it. Callbacks of states run in one thread of the executor, so they should be quick."""

    def __init__(self, url: Optional[str] = None, config: Optional[JobExecutorConfig] = None) -> None:
        from muster import client as api

        super().__init__(url=url, config=config or JobExecutorConfig())
        self._client = api.Client(url)
        self._watcher = _Watcher(self._client.launcher)

    def submit(self, job: Job) -> None:
        """Submits a job. `native_id` is then launcherd's id. Raises InvalidJobException, or SubmitException, whose
        `transient` says whether a later attempt may succeed."""
        from muster import client as api

        spec = self._check_job(job)
        try:
            request = request_of(spec)
            job._native_id = self._client.submit(request)
        except InvalidJobException:
            job.executor = None  # _check_job() has bound the job
            raise
        except api.InvalidArgument as why:
            job.executor = None
            raise InvalidJobException(why.message, why) from why
        except api.MusterError as why:
            job.executor = None
            is_transient = isinstance(why, (api.Unavailable, api.ResourceExhausted, api.DeadlineExceeded))
            raise SubmitException(why.message, why, transient=is_transient) from why
        self._set_job_status(job, JobStatus(JobState.QUEUED, metadata={"nativeId": job._native_id}))
        self._watcher.follow(self, job)

    def cancel(self, job: Job) -> None:
        """Asks launcherd to end the job: SIGTERM, and SIGKILL after its grace time. Does nothing for a job that has ended."""
        from muster import client as api

        if job.status.state == JobState.NEW:
            self._set_job_status(job, JobStatus(JobState.CANCELED))
            return
        try:
            self._client.kill(job.native_id or "")
        except api.FailedPrecondition:
            return  # it has ended
        except api.MusterError as why:
            raise SubmitException(why.message, why) from why

    def list(self) -> List[str]:
        """Returns the ids of launcherd's jobs that have not ended."""
        from muster import client as api

        try:
            return [job.id for job in self._client.jobs()]
        except api.MusterError as why:
            raise SubmitException(why.message, why) from why

    def attach(self, job: Job, native_id: str) -> None:
        """Lets `job` follow a job of launcherd, also one that has ended."""
        if job.status.state != JobState.NEW:
            raise InvalidJobException("Job must be in the NEW state")
        job.executor = self
        job._native_id = native_id
        self._watcher.follow(self, job)
