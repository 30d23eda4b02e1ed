"""The requests of both clients, and which calls may be sent twice."""

from __future__ import annotations

import datetime
import signal as signals
from typing import Any, Iterable, List, Optional, Union

from muster.client._stubs import launcher_pb2
from muster.client.errors import InvalidArgument
from muster.client.jobs import JobState, WantedHost, new_request_id, parse_dependency, parse_host, timestamp


def may_repeat(request: Any) -> bool:
    """True if the launcher does the same when it gets the request twice. Submissions have a request_id. A second Kill
    would not wait for the grace time, and a second Signal would arrive twice. A second Cleanup would not report what the
    first has removed."""
    if isinstance(request, launcher_pb2.KillRequest):
        return bool(request.at_once)
    if isinstance(request, launcher_pb2.CleanupRequest):
        return bool(request.dry_run)
    return not isinstance(request, launcher_pb2.SignalRequest)


def get_job(job: str, ranks: bool) -> launcher_pb2.GetJobRequest:
    return launcher_pb2.GetJobRequest(job=job, max_ranks=0 if ranks else -1)


def list_jobs(all: bool, filter: str, states: Iterable[JobState], order: str, reverse: bool, page_size: int,
              page_token: str) -> launcher_pb2.ListJobsRequest:
    name = f"JOB_ORDER_{order.upper()}" if order else "JOB_ORDER_UNSPECIFIED"
    if name not in launcher_pb2.JobOrder.keys():
        known = ", ".join(key.removeprefix("JOB_ORDER_").lower() for key in launcher_pb2.JobOrder.keys()[1:])
        raise InvalidArgument(f"order: {order!r} is unknown; use one of: {known}", field="order")
    try:
        return launcher_pb2.ListJobsRequest(all=all, filter=filter, states=[JobState(state).value for state in states],
                                            order=name, reverse=reverse, page_size=page_size, page_token=page_token)
    except (TypeError, ValueError) as why:
        raise InvalidArgument(f"a value has the wrong type: {why}") from why


def logs(job: str, follow: bool, ranks: Iterable[int], from_position: int, since: Optional[datetime.datetime],
         tail_lines: int) -> launcher_pb2.LogsRequest:
    try:
        request = launcher_pb2.LogsRequest(job=job, follow=follow, ranks=list(ranks), from_position=from_position,
                                           tail_lines=tail_lines)
    except (TypeError, ValueError) as why:
        raise InvalidArgument(f"a value has the wrong type: {why}") from why
    if since is not None:
        request.since.CopyFrom(timestamp(since))
    return request


def signal(job: str, number: Union[int, str]) -> launcher_pb2.SignalRequest:
    """`number` is a number, or a name such as "USR1" or "SIGUSR1"."""
    if isinstance(number, str):
        name = number if number.startswith("SIG") else f"SIG{number}"
        if name not in signals.Signals.__members__:
            raise InvalidArgument(f"signal: {number!r} is no signal", field="signal")
        number = signals.Signals[name]
    return launcher_pb2.SignalRequest(job=job, signal=int(number))


def update(job: str, priority: Optional[int], deadline: Optional[datetime.datetime], no_deadline: bool,
           after: Optional[Iterable[str]]) -> launcher_pb2.UpdateJobRequest:
    try:
        request = launcher_pb2.UpdateJobRequest(job=job, no_deadline=no_deadline)
        if priority is not None:
            request.priority = priority
    except (TypeError, ValueError) as why:
        raise InvalidArgument(f"priority: has a wrong value: {why}", field="priority") from why
    if deadline is not None:
        request.deadline.CopyFrom(timestamp(deadline))
    if after is not None:
        request.after.extend(parse_dependency(each) for each in after)
        request.no_after = not request.after
    return request


def rerun(job: str, request_id: Optional[str]) -> launcher_pb2.RerunRequest:
    return launcher_pb2.RerunRequest(job=job, request_id=request_id or new_request_id())


def stacks(job: str, ranks: Iterable[int], native: bool) -> launcher_pb2.StacksRequest:
    try:
        return launcher_pb2.StacksRequest(job=job, ranks=list(ranks), native=native)
    except (TypeError, ValueError) as why:
        raise InvalidArgument(f"ranks: has a wrong value: {why}", field="ranks") from why


def history(job: str, hosts: Iterable[str], since: Optional[datetime.datetime]) -> launcher_pb2.HistoryRequest:
    request = launcher_pb2.HistoryRequest(job=job, hosts=names("hosts", hosts))
    if since is not None:
        request.since.CopyFrom(timestamp(since))
    return request


def cleanup(hosts: Iterable[str], job: str, dry_run: bool) -> launcher_pb2.CleanupRequest:
    return launcher_pb2.CleanupRequest(hosts=names("hosts", hosts), job=job, dry_run=dry_run)


def names(field: str, values: Iterable[str]) -> List[str]:
    """A text alone would be taken for a list of its letters."""
    if isinstance(values, str):
        raise InvalidArgument(f"{field}: {values!r} is no list; write [{values!r}]", field=field)
    return list(values)


def resize(job: str, size: int, add_hosts: Iterable[Union[str, WantedHost]]) -> launcher_pb2.ResizeRequest:
    hosts = [parse_host(host) if isinstance(host, str) else host for host in add_hosts]
    return launcher_pb2.ResizeRequest(job=job, size=size, add_hosts=hosts)
