"""An executor plugin of Snakemake that runs jobs by launcherd.

    snakemake --executor muster --jobs 100                      # and --muster-launcher head:7400 for one elsewhere

Each job of Snakemake, or group of jobs, is one job of launcherd with one rank. The hosts need the workflow's folder at the
same path, as for other clusters. Of the resources of a rule, launcherd heeds:

| resource | means |
|---|---|
| `threads` | cores that the job gets as its own, if more than 1 |
| `runtime` | minutes; then the job is ended, and has failed |
| `gpu` | GPUs that the job gets as its own |
| `muster_priority` | higher runs first |

It does not count memory (`mem_mb`).
"""

# Without `from __future__ import annotations`: Snakemake reads the types of ExecutorSettings.
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, AsyncGenerator, Dict, List, Optional

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

if TYPE_CHECKING:
    from muster import client as api

# Snakemake imports every plugin whenever it starts. So muster.client, which needs grpcio, is imported where it is used.
_LAST_LINES = 20  # of a failed job, in Snakemake's message


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """Options of the command line: --muster-launcher and --muster-hosts."""

    launcher: Optional[str] = field(default=None, metadata={
        "help": "launcherd's address: unix:/path or host:port; by default as the command muster finds it", "env_var": False,
        "required": False})
    hosts: Optional[str] = field(default=None, metadata={
        "help": "hosts of launcherd's list that jobs may use, by comma: n1:4,n2:4; by default all", "env_var": False,
        "required": False})


common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_default_storage_provider_args=True,
    pass_default_resources_args=True,
    pass_envvar_declarations_to_cmd=False,  # they may be secret, and a command line is not
    auto_deploy_default_storage_provider=False,
)


def _number(job: JobExecutorInterface, name: str) -> int:
    """Returns a resource of a job. 0 if it is not set, or no number."""
    value = job.resources.get(name)
    return value if isinstance(value, int) else 0


class Executor(RemoteExecutor):  # type: ignore[misc]
    """Submits Snakemake's jobs to launcherd.

    Threads: Snakemake's scheduler submits in one, and a thread of RemoteExecutor asks for states. The client is for both."""

    def __post_init__(self) -> None:
        from muster import client as api

        settings = self.workflow.executor_settings or ExecutorSettings()
        self._hosts = [host for host in (settings.hosts or "").split(",") if host]
        try:
            self._client = api.Client(settings.launcher)
        except api.MusterError as why:
            raise WorkflowError(why.message) from why

    def _variables(self) -> Dict[str, str]:
        """Returns what the job gets beside its host's log-in environment. Snakemake in the job must run by itself, so
        SNAKEMAKE_PROFILE stays out, and so do variables of a rank, in which Snakemake may run."""
        given = {name: value for name, value in os.environ.items()
                 if name != "SNAKEMAKE_PROFILE" and not name.startswith("MUSTER_")}
        return {**given, **self.envvars()}

    def _fields(self, job: JobExecutorInterface) -> Dict[str, Any]:
        from muster import client as api

        spec = api.JobSpec()
        if job.threads > 1:
            spec.bind_to, spec.depth = "depth", job.threads
        gpus = _number(job, "gpu")
        if gpus:
            spec.gpus_per_rank, spec.gpu_bind = gpus, "one"
        runtime = _number(job, "runtime")
        return {"name": self.get_jobname(job)[:128], "size": 1, "hosts": self._hosts, "priority": _number(job, "muster_priority"),
                "timeout": runtime * 60 if runtime else None, "environment": self._variables(), "spec": spec,
                "labels": {"snakemake": ",".join(job.rules)[:256]}}

    def run_job(self, job: JobExecutorInterface) -> None:
        """Submits a job. One that an earlier run of Snakemake has submitted, and that has not ended, is followed instead."""
        from muster import client as api

        earlier = self.dag.incomplete_external_jobid(job)
        if earlier and self._is_active(earlier):
            self.logger.info(f"Job {job.jobid} goes on as Muster's job {earlier}.")
            self.report_job_submission(SubmittedJobInfo(job, external_jobid=earlier))
            return
        info = SubmittedJobInfo(job)
        try:
            info.external_jobid = self._client.submit(["/bin/sh", "-c", self.format_job_exec(job)], **self._fields(job))
        except api.MusterError as why:
            self.report_job_error(info, msg=f"launcherd has refused the job: {why.message}. ")
            return
        self.logger.info(f"Job {job.jobid} has been submitted as Muster's job {info.external_jobid}.")
        self.report_job_submission(info)

    def _is_active(self, native: str) -> bool:
        from muster import client as api

        try:
            return not api.JobState(self._client.get(native, ranks=False).state).is_final
        except api.MusterError:
            return False

    async def check_active_jobs(self, active_jobs: List[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Reports the jobs that have ended, and yields the others."""
        for info in active_jobs:
            async with self.status_rate_limiter:
                if not self._has_ended(info):
                    yield info

    def _has_ended(self, info: SubmittedJobInfo) -> bool:
        from muster import client as api

        native = info.external_jobid or ""
        try:
            job = self._client.get(native, ranks=False)
            state = api.JobState(job.state)
            if state is api.JobState.SUCCEEDED:
                self.report_job_success(info)
            elif state.is_final:
                self.report_job_error(info, msg=f"Muster's job {native}: {job.reason}. {self._last_lines(native)}")
            return state.is_final
        except api.NotFound as why:
            self.report_job_error(info, msg=f"{why.message}. ")
            return True
        except api.MusterError as why:
            raise WorkflowError(why.message) from why

    def _last_lines(self, native: str) -> str:
        output = b"".join(chunk.data for chunk in self._client.logs(native, tail_lines=_LAST_LINES))
        return f"Its last lines:\n{output.decode(errors='replace')}\n" if output else ""

    def cancel_jobs(self, active_jobs: List[SubmittedJobInfo]) -> None:
        """Ends jobs: SIGTERM, and SIGKILL after their grace time."""
        from muster import client as api

        for info in active_jobs:
            try:
                self._client.kill(info.external_jobid or "")
            except (api.FailedPrecondition, api.NotFound):
                pass  # it has ended
            except api.MusterError as why:
                self.logger.error(f"Muster's job {info.external_jobid} could not be ended: {why.message}")
