"""How far a stream of events or of output has come, so that it goes on there after a cut. For both clients."""

from __future__ import annotations

from typing import Any, Generic, Optional, TypeVar

from muster.client._stubs import launcher_pb2
from muster.client.jobs import Event, Job, JobState, LogChunk

Message = TypeVar("Message")


class Cursor(Generic[Message]):
    """The place in one stream.

    Thread: one. `call` is the name of the call. `request` is what to ask for next."""

    call = ""
    request: Any

    def take(self, message: Message) -> bool:
        """Moves on. Returns False if the caller has this message already."""
        raise NotImplementedError

    def needs_job(self) -> bool:
        """Called after the launcher has ended the stream. True if only the job can tell whether this is the end."""
        raise NotImplementedError

    def is_over(self, job: Optional[Job]) -> bool:
        """True if the stream has ended because nothing more will come. `job` is None unless needs_job()."""
        raise NotImplementedError


class WatchCursor(Cursor[Event]):
    """The events of a job, by their sequence numbers."""

    call = "Watch"

    def __init__(self, job: str, from_sequence: int) -> None:
        self.request = launcher_pb2.WatchRequest(job=job, from_sequence=from_sequence)

    def take(self, message: Event) -> bool:
        if message.sequence < self.request.from_sequence:
            return False
        self.request.from_sequence = message.sequence + 1
        return True

    def needs_job(self) -> bool:
        return True  # a launcher that leaves ends its streams in the same way

    def is_over(self, job: Optional[Job]) -> bool:
        return job is not None and JobState(job.state).is_final and job.last_event < self.request.from_sequence


class LogsCursor(Cursor[LogChunk]):
    """Output, by its positions."""

    call = "Logs"

    def __init__(self, request: launcher_pb2.LogsRequest) -> None:
        self.request = request

    def take(self, message: LogChunk) -> bool:
        self.request.from_position = message.next_position
        self.request.tail_lines = 0  # counted from the present end, which moves
        return True

    def needs_job(self) -> bool:
        return False

    def is_over(self, job: Optional[Job]) -> bool:
        return True
