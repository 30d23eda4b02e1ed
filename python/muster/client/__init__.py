"""A client of launcherd: submits jobs, follows them, reads their output.

    from muster.client import Client

    with Client() as client:                                    # the launcherd that the command `muster` would ask
        job = client.submit(["python3", "train.py"], size=8, name="night")
        for chunk in client.logs(job, follow=True):
            print(chunk.rank, chunk.data.decode(errors="replace"), end="")
        print(client.wait(job).exit_code)

AsyncClient is the same for asyncio. docs/api.md has more. It needs grpcio and protobuf: pip install 'muster[client]'.
Importing it loads neither libmuster nor NumPy.
"""

from muster.client.address import Address, TlsFiles, find_address
from muster.client.async_client import AsyncClient, AsyncStream
from muster.client.client import Client, Stream
from muster.client.commands import ExecResult
from muster.client.errors import (Aborted, AlreadyExists, Cancelled, DataLoss, DeadlineExceeded, FailedPrecondition,
                                  InternalError, InvalidArgument, MusterError, NotFound, OutOfRange, PermissionDenied,
                                  ResourceExhausted, Unauthenticated, Unavailable, Unimplemented)
from muster.client.jobs import (Capabilities, CleanupReport, ElementRange, Event, HangReport, HistoryResponse, Job, JobFields,
                                JobPage, JobSpec, JobState, LauncherHost, LogChunk, ProcessStack, ResizeResponse, SubmitRequest,
                                WantedHost, job_request, new_request_id, parse_host)

__all__ = [
    "Aborted", "Address", "AlreadyExists", "AsyncClient", "AsyncStream", "Cancelled", "Capabilities", "CleanupReport",
    "Client", "DataLoss", "DeadlineExceeded", "ElementRange", "Event", "ExecResult", "FailedPrecondition", "HangReport",
    "HistoryResponse", "InternalError", "InvalidArgument", "Job", "JobFields", "JobPage", "JobSpec", "JobState", "LauncherHost",
    "LogChunk", "MusterError", "NotFound", "OutOfRange", "PermissionDenied", "ProcessStack", "ResizeResponse",
    "ResourceExhausted", "Stream", "SubmitRequest", "TlsFiles", "Unauthenticated", "Unavailable",
    "Unimplemented", "WantedHost", "find_address", "job_request", "new_request_id", "parse_host",
]
