"""Jobs as requests and as answers: states, and the messages that describe a job to run.

Answers are messages of muster.v1 (`Job`, `Event`, `LogChunk`, `LauncherHost`, …), whose fields
proto/muster/v1/launcher.proto and job.proto explain. Messages are values: they belong to the caller, and threads must not
change one at the same time.
"""

from __future__ import annotations

import datetime
import enum
import os
import re
import uuid
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, NamedTuple, Sequence, TypedDict, Union

from muster.client._stubs import cleanup_pb2, duration_pb2, job_pb2, launcher_pb2, timestamp_pb2
from muster.client.errors import InvalidArgument

Job = launcher_pb2.Job
JobSpec = launcher_pb2.JobSpec
SubmitRequest = launcher_pb2.SubmitRequest
WantedHost = launcher_pb2.WantedHost
LauncherHost = launcher_pb2.LauncherHost
LogChunk = launcher_pb2.LogChunk
Capabilities = launcher_pb2.Capabilities
ResizeResponse = launcher_pb2.ResizeResponse
ElementRange = launcher_pb2.ElementRange
HistoryResponse = launcher_pb2.HistoryResponse
Event = job_pb2.Event
ProcessStack = job_pb2.ProcessStack
HangReport = job_pb2.HangReport
CleanupReport = cleanup_pb2.CleanupReport

Text = Union[str, bytes]
"""Words of commands, paths and variables: bytes go as they are, text as the file system's encoding."""


class JobState(enum.IntEnum):
    """The states of a job; equal to the numbers in `Job.state`: `JobState(job.state).name`."""

    UNSPECIFIED = job_pb2.JOB_STATE_UNSPECIFIED
    QUEUED = job_pb2.JOB_STATE_QUEUED
    STARTING = job_pb2.JOB_STATE_STARTING
    RUNNING = job_pb2.JOB_STATE_RUNNING
    STOPPING = job_pb2.JOB_STATE_STOPPING
    SUCCEEDED = job_pb2.JOB_STATE_SUCCEEDED
    FAILED = job_pb2.JOB_STATE_FAILED
    KILLED = job_pb2.JOB_STATE_KILLED
    LOST = job_pb2.JOB_STATE_LOST

    @property
    def is_final(self) -> bool:
        """True if the job has ended."""
        return self in (JobState.SUCCEEDED, JobState.FAILED, JobState.KILLED, JobState.LOST)

    @classmethod
    def _missing_(cls, value: object) -> JobState:
        return cls.UNSPECIFIED  # a state of a newer launcher


class JobPage(NamedTuple):
    """One page of a list of jobs. `next_page_token` is empty on the last page; `total` counts the jobs of all pages."""

    jobs: List[Job]
    next_page_token: str
    total: int


class JobFields(TypedDict, total=False):
    """What a job may be given besides its command. All are optional."""

    name: str
    """For people; at most 128 bytes."""
    size: int
    """Number of ranks. Without it: ranks_per_host on each of `hosts`, else all their slots, else 1."""
    hosts: Sequence[Union[str, WantedHost]]
    """Hosts of launcherd's list: "n1", "n1:4" (slots), "ann@n1:4". Without it: any."""
    ranks_per_host: int
    environment: Mapping[Text, Text]
    """Variables that the ranks get beside their host's log-in environment. Secret: no call returns the values. Without it
    none: pass `os.environ` to give the ranks this process's."""
    working_directory: Text
    """Absolute, on every host. Without it: that of this process."""
    umask: int
    """Without it: that of this process is not asked; 0o022."""
    priority: int
    """Higher runs first."""
    labels: Mapping[str, str]
    """At most 64, of 256 bytes each."""
    request_id: str
    """The same id never makes a second job. Without it the client makes one, so its own retries are safe."""
    held: bool
    """The job waits for release()."""
    timeout: float
    """Seconds that the job may run; then it is killed, with exit code 124."""
    deadline: datetime.datetime
    """The job must end by then, even if it still waits. With a time zone, or else of the local one."""
    start_timeout: float
    """Seconds for the hosts to start. Without it: 30."""
    kill_grace: float
    """Seconds between SIGTERM and SIGKILL. Without it: 5."""
    retention: float
    """Seconds to keep the ended job and its output. Without it: 7 days."""
    after: Sequence[str]
    """Jobs that must have ended before this one starts: "JOB" or "JOB:ok" (it must have succeeded), or "JOB:any"."""
    array: str
    """Runs the program once for each index: "0-99", "1,3,7-9", or with "%4" at most 4 elements at the same time."""
    notify: Text
    """A command for /bin/sh on launcherd's host when the job has ended. Over TCP it needs the role admin."""
    max_restarts: int
    oversubscribe: bool
    """More ranks than slots are allowed."""
    spec: JobSpec
    """Everything else that a job can have. The other arguments override its fields; it is copied."""


_HOST = re.compile(r"(?:(?P<user>[^@:\s]+)@)?(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_][A-Za-z0-9._-]*)(?::(?P<slots>[0-9]{1,6}))?")
_CONDITIONS = {"ok": launcher_pb2.DEPENDENCY_CONDITION_OK, "any": launcher_pb2.DEPENDENCY_CONDITION_ANY}
_RANGES = r"[0-9]{1,9}(-[0-9]{1,9})?(,[0-9]{1,9}(-[0-9]{1,9})?)*"
_PLAIN = frozenset(("size", "ranks_per_host", "umask", "max_restarts", "oversubscribe"))
_TOP = frozenset(("name", "priority", "request_id", "held"))
_SECONDS = frozenset(("timeout", "start_timeout", "kill_grace"))


def new_request_id() -> str:
    """Returns an id that no other submission has."""
    return uuid.uuid4().hex


def parse_host(text: str) -> WantedHost:
    """Returns the host that [user@]name[:slots] names. Raises InvalidArgument."""
    found = _HOST.fullmatch(text)
    if found is None:
        raise InvalidArgument(f"hosts: {text!r} is no host; write name, name:slots or user@name:slots", field="hosts")
    return WantedHost(name=found["name"].strip("[]"), slots=int(found["slots"] or 0), user=found["user"] or "")


def _encode(field: str, value: object) -> bytes:
    # The message leaves the value out, because it may be a secret.
    if not isinstance(value, (str, bytes)):
        raise InvalidArgument(f"{field}: must be text or bytes, not {type(value).__name__}", field=field)
    return os.fsencode(value)


def seconds(field: str, value: float) -> duration_pb2.Duration:
    """Returns the message for a number of seconds. Raises InvalidArgument for one that is negative or no number."""
    try:
        whole = datetime.timedelta(seconds=value)
    except (TypeError, ValueError, OverflowError) as why:
        raise InvalidArgument(f"{field}: {value!r} is no number of seconds", field=field) from why
    if whole < datetime.timedelta(0):
        raise InvalidArgument(f"{field}: {value!r} seconds are negative", field=field)
    message = duration_pb2.Duration()
    message.FromTimedelta(whole)
    return message


def timestamp(value: datetime.datetime) -> timestamp_pb2.Timestamp:
    """Returns the message for a time. A time without a zone is of the local one."""
    message = timestamp_pb2.Timestamp()
    message.FromDatetime(value.astimezone(datetime.timezone.utc).replace(tzinfo=None))
    return message


def _set_environment(request: SubmitRequest, variables: Mapping[Text, Text]) -> None:
    for name, value in variables.items():
        request.environment.add(name=_encode("environment", name), value=_encode("environment", value))


def parse_dependency(text: str) -> launcher_pb2.JobDependency:
    """Returns the dependency that JOB, JOB:ok or JOB:any names. Raises InvalidArgument."""
    job, colon, condition = text.partition(":")
    if not job or (colon and condition not in _CONDITIONS):
        raise InvalidArgument(f"after: {text!r} is no dependency; write JOB, JOB:ok or JOB:any", field="after")
    return launcher_pb2.JobDependency(job=job, condition=_CONDITIONS[condition or "ok"])


def parse_array(text: str) -> launcher_pb2.ArraySpec:
    """Returns the array that "0-99%4" names. Raises InvalidArgument. launcherd checks order and number of the elements."""
    ranges, percent, limit = text.partition("%")
    spec = launcher_pb2.ArraySpec()
    if not re.fullmatch(_RANGES, ranges) or (percent and not re.fullmatch(r"[1-9][0-9]{0,8}", limit)):
        raise InvalidArgument(f"array: {text!r} is no array; write 0-99, 1,3,7-9 or 0-99%4", field="array")
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        spec.elements.add(first=int(first), last=int(last or first))
    spec.most_at_once = int(limit or 0)
    return spec


def _set_hosts(request: SubmitRequest, hosts: Sequence[Union[str, WantedHost]]) -> None:
    if isinstance(hosts, str):
        raise InvalidArgument('hosts: must be a list, as in ["n1:4", "n2:4"]', field="hosts")
    del request.spec.hosts[:]
    request.spec.hosts.extend(parse_host(each) if isinstance(each, str) else each for each in hosts)


def _set_field(request: SubmitRequest, name: str, value: Any) -> None:
    spec = request.spec
    if name in _PLAIN:
        setattr(spec, name, value)
    elif name in _TOP:
        setattr(request, name, value)
    elif name in _SECONDS:
        getattr(spec, name).CopyFrom(seconds(name, value))
    elif name == "retention":
        request.retention.CopyFrom(seconds(name, value))
    elif name == "deadline":
        spec.deadline.CopyFrom(timestamp(value))
    elif name == "working_directory":
        spec.working_directory = _encode(name, value)
    elif name == "hosts":
        _set_hosts(request, value)
    elif name == "after":
        if isinstance(value, str):
            raise InvalidArgument('after: must be a list, as in ["k7:ok"]', field="after")
        del request.after[:]
        request.after.extend(parse_dependency(each) for each in value)
    elif name == "array":
        request.array.CopyFrom(parse_array(value))
    elif name == "notify":
        request.notify = _encode(name, value)
    elif name == "labels":
        for label, text in value.items():
            request.labels.add(name=label, value=text)
    elif name == "environment":
        _set_environment(request, value)
    else:
        raise InvalidArgument(f"{name}: unknown field of a job; put it into `spec`, or build a SubmitRequest", field=name)


if TYPE_CHECKING:
    from typing_extensions import Unpack


def job_request(command: Union[Sequence[Text], SubmitRequest], **fields: Unpack[JobFields]) -> SubmitRequest:
    """Returns the request that submits `command`, with a request_id. The arguments are those of JobFields.

    `command` is the words of a command, or a complete SubmitRequest, which is copied. Raises InvalidArgument, whose
    `field` names the argument. launcherd checks the rest when the request is sent."""
    given: Dict[str, Any] = dict(fields)
    request = SubmitRequest()
    if isinstance(command, SubmitRequest):
        request.CopyFrom(command)
    spec = given.pop("spec", None)
    if spec is not None:
        request.spec.CopyFrom(spec)
    if not isinstance(command, SubmitRequest):
        if isinstance(command, (str, bytes)) or not isinstance(command, Iterable):
            raise InvalidArgument("command: must be a list of words, as in [\"python3\", \"train.py\"]", field="command")
        del request.spec.command[:]
        request.spec.command.extend(_encode("command", word) for word in command)
    for name, value in given.items():
        if value is None:
            continue
        try:
            _set_field(request, name, value)
        except (TypeError, ValueError, AttributeError) as why:
            raise InvalidArgument(f"{name}: has a wrong value: {why}", field=name) from why
    request.spec.working_directory = request.spec.working_directory or os.fsencode(os.getcwd())
    request.request_id = request.request_id or new_request_id()
    return request
