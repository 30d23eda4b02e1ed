"""Commands beside ranks (exec() of both clients): their requests, the window of their input, and their results."""

from __future__ import annotations

import dataclasses
import os
import threading
from typing import Any, Iterator, Optional, Sequence

from muster.client._stubs import launcher_pb2
from muster.client.errors import InvalidArgument, Unavailable
from muster.client.jobs import Text

WINDOW = 64 * 1024  # bytes of input that may be sent ahead of the command
PIECE = 32 * 1024


@dataclasses.dataclass(frozen=True)
class ExecResult:
    """How a command ended, and what it wrote."""

    exit_code: int  # as a shell has it: 128 + N for signal N; 125 to 127: it did not start
    signal: int  # that killed it; 0 if none
    message: str  # why Muster ended it, or why it did not start; else empty
    stdout: bytes
    stderr: bytes
    host: str  # where it ran; empty if it did not start


def first_request(job: str, command: Sequence[Text], rank: Optional[int]) -> Any:
    if isinstance(command, (str, bytes)):
        raise InvalidArgument("command: give a list of words, not one text", field="command")
    try:
        return launcher_pb2.ExecRequest(job=job, command=[os.fsencode(word) for word in command], rank=rank)
    except (TypeError, ValueError) as why:
        raise InvalidArgument(f"a value has the wrong type: {why}") from why


class Collector:
    """Makes an ExecResult from the events of a command."""

    def __init__(self) -> None:
        self._stdout = bytearray()
        self._stderr = bytearray()
        self._host = ""
        self.result: Optional[ExecResult] = None

    def take(self, event: Any) -> int:
        """Returns how many more bytes of input the command has taken."""
        kind = event.WhichOneof("event")
        if kind == "begun":
            self._host = event.begun.host
        elif kind == "output":
            self._stdout += event.output
        elif kind == "error_output":
            self._stderr += event.error_output
        elif kind == "ended":
            self.result = ExecResult(event.ended.exit_code, event.ended.signal, event.ended.message,
                                     bytes(self._stdout), bytes(self._stderr), self._host)
        return int(event.input_taken) if kind == "input_taken" else 0

    def finished(self) -> ExecResult:
        if self.result is None:
            raise Unavailable("the launcher did not say how the command ended")
        return self.result


class InputFeed:
    """The requests of a call, in the pace of the command. gRPC iterates on a thread of its own; others call add_room()
    and close()."""

    def __init__(self, first: Any, data: bytes) -> None:
        self._first = first
        self._data = memoryview(data)
        self._room = WINDOW
        self._is_closed = False
        self._changed = threading.Condition()

    def __iter__(self) -> Iterator[Any]:
        yield self._first
        at = 0
        while at < len(self._data):
            with self._changed:
                self._changed.wait_for(lambda: self._room > 0 or self._is_closed)
                if self._is_closed:
                    return
                size = min(PIECE, self._room, len(self._data) - at)
                self._room -= size
            yield launcher_pb2.ExecRequest(input=bytes(self._data[at:at + size]))
            at += size
        yield launcher_pb2.ExecRequest(end_of_input=True)

    def add_room(self, size: int) -> None:
        with self._changed:
            self._room += size
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
