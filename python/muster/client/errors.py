"""The exceptions of muster.client. Each has the launcher's own sentence, which says what failed and what to do.

    MusterError
      Unavailable, DeadlineExceeded, Cancelled                the launcher does not answer, or not in time
      InvalidArgument, NotFound, AlreadyExists, OutOfRange    the request is wrong
      FailedPrecondition, ResourceExhausted, PermissionDenied, Unauthenticated, Unimplemented    the launcher refuses
      Aborted                                                 another change is being made: call again
      DataLoss, InternalError                                 the launcher failed
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, Optional, Tuple, Type, Union

from muster.client._stubs import grpc


class MusterError(Exception):
    """A call failed.

    `code` is the name of gRPC's status code. `field` names the wrong field of the request, such as "spec.size", or is
    None. `is_from_launcher` is False if the launcher itself sent no answer."""

    code = "UNKNOWN"

    def __init__(self, message: str, *, field: Optional[str] = None, is_from_launcher: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.is_from_launcher = is_from_launcher


class Unavailable(MusterError):
    """The launcher does not answer, or is leaving. The client has repeated the call where that is safe."""

    code = "UNAVAILABLE"


class DeadlineExceeded(MusterError):
    """The launcher did not answer within the timeout of the call. What was asked may have been done."""

    code = "DEADLINE_EXCEEDED"


class Cancelled(MusterError):
    """The client was closed during the call."""

    code = "CANCELLED"


class InvalidArgument(MusterError):
    """The request is wrong, and nothing was done. `field` says where."""

    code = "INVALID_ARGUMENT"


class NotFound(MusterError):
    """The launcher has no such job or host."""

    code = "NOT_FOUND"


class AlreadyExists(MusterError):
    """The request_id was used for another request."""

    code = "ALREADY_EXISTS"


class OutOfRange(MusterError):
    """The job allows no such size, or the events are no longer there."""

    code = "OUT_OF_RANGE"


class FailedPrecondition(MusterError):
    """The state of the job forbids it, for example because the job has ended."""

    code = "FAILED_PRECONDITION"


class Aborted(MusterError):
    """Another change of the same kind is being stored. Call again."""

    code = "ABORTED"


class ResourceExhausted(MusterError):
    """The launcher has no room: its disk is full, or too few slots are free."""

    code = "RESOURCE_EXHAUSTED"


class PermissionDenied(MusterError):
    """The certificate has no role for the call, or the launcher belongs to another user."""

    code = "PERMISSION_DENIED"


class Unauthenticated(MusterError):
    """The launcher does not know the caller."""

    code = "UNAUTHENTICATED"


class Unimplemented(MusterError):
    """This launcher does not serve the call, perhaps because it is older than the client."""

    code = "UNIMPLEMENTED"


class DataLoss(MusterError):
    """Stored data of the launcher are damaged."""

    code = "DATA_LOSS"


class InternalError(MusterError):
    """The launcher failed in a way that it did not expect."""

    code = "INTERNAL"


_CLASSES: Dict[str, Type[MusterError]] = {
    each.code: each
    for each in (Unavailable, DeadlineExceeded, Cancelled, InvalidArgument, NotFound, AlreadyExists, OutOfRange,
                 FailedPrecondition, Aborted, ResourceExhausted, PermissionDenied, Unauthenticated, Unimplemented, DataLoss,
                 InternalError)
}
_DETAILS = "grpc-status-details-bin"


def _fields(data: bytes) -> Iterator[Tuple[int, Union[int, bytes]]]:
    """Yields number and value of the fields of a serialized message. Raises ValueError if it is none."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = 0
        for shift in range(0, 70, 7):
            if at >= len(data):
                break
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("not a message")

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 2:
            size = varint()
            if size > len(data) - at:
                raise ValueError("not a message")
            yield key >> 3, data[at:at + size]
            at += size
        else:
            raise ValueError("not a message that google.rpc sends")


def _bytes_of(data: bytes, number: int) -> Iterator[bytes]:
    for found, value in _fields(data):
        if found == number and isinstance(value, bytes):
            yield value


def field_of_details(details: bytes) -> Optional[str]:
    """Returns the field that a serialized google.rpc.Status names, or None.

    Reads it by hand: a generated google.rpc.Status of ours would clash with that of googleapis-common-protos, which the
    caller's process may have loaded."""
    try:
        for packed in _bytes_of(details, 3):  # Status.details
            if not any(url.endswith(b"/google.rpc.BadRequest") for url in _bytes_of(packed, 1)):
                continue
            for value in _bytes_of(packed, 2):
                for violation in _bytes_of(value, 1):
                    for field in _bytes_of(violation, 1):
                        return field.decode("utf-8", "replace")
    except ValueError:
        pass
    return None


def _details_of(error: grpc.RpcError) -> Optional[bytes]:
    trailers: Any = error.trailing_metadata() or ()
    for name, value in trailers:
        if name == _DETAILS and isinstance(value, bytes):
            return value
    return None


def from_rpc(error: grpc.RpcError, where: str, is_cancelled: bool = False) -> MusterError:
    """Returns the exception for an error of gRPC. `where` is the launcher's address. `is_cancelled`: by the caller."""
    code, sentence = error.code().name, error.details() or ""
    details = _details_of(error)
    if code == "CANCELLED" and not is_cancelled:
        code = "UNAVAILABLE"  # a launcher that ends cancels the calls that it has not taken up
    if code == "CANCELLED":
        return Cancelled(f"the call to {where} was cancelled")
    if code == "UNAVAILABLE" and details is None:
        return no_answer(where, sentence)
    if code == "DEADLINE_EXCEEDED" and details is None:
        return DeadlineExceeded(f"the launcherd at {where} did not answer in time")
    kind = _CLASSES.get(code, MusterError)
    return kind(sentence or f"the launcherd at {where} answered {code}",
                field=field_of_details(details) if details else None, is_from_launcher=details is not None)


def no_answer(where: str, why: str) -> Unavailable:
    return Unavailable(f"no launcherd answers at {where} ({why}): start one with launcherd --hostfile FILE")


def left_in_doubt(failure: MusterError, call: str, where: str) -> Unavailable:
    """For a call that must not be repeated, and that the connection's end has cut."""
    return Unavailable(f"the launcherd at {where} was lost during {call}, which it may have done or not: look at the job "
                       f"with get() before you repeat the call ({failure.message})")
