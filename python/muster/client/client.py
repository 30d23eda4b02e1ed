"""Client calls a launcher and waits for the answers. AsyncClient, in async_client.py, does the same for asyncio.

Read Client._ask first, then Stream, then the calls.
"""

from __future__ import annotations

import collections
import datetime
import threading
from types import TracebackType
from typing import (TYPE_CHECKING, Any, Callable, Deque, Generic, Iterable, Iterator, List, Optional, Sequence, Tuple,
                    Type, TypeVar, Union, cast)

from muster.client import calls
from muster.client._stubs import grpc, launcher_pb2, launcher_pb2_grpc
from muster.client.address import TlsFiles, check_socket, find_address
from muster.client.channels import open_channel
from muster.client.commands import Collector, ExecResult, InputFeed, first_request
from muster.client.cursors import Cursor, LogsCursor, Message, WatchCursor
from muster.client.errors import Cancelled, DeadlineExceeded, MusterError, Unavailable, from_rpc, left_in_doubt
from muster.client.jobs import (Capabilities, CleanupReport, ElementRange, Event, HangReport, HistoryResponse, Job, JobFields,
                                JobPage, JobState, LauncherHost, LogChunk, ProcessStack, ResizeResponse, SubmitRequest,
                                Text, WantedHost, job_request)
from muster.client.retry import Attempts

if TYPE_CHECKING:
    from typing_extensions import Unpack

Answer = TypeVar("Answer")


class Stream(Generic[Message]):
    """Iterates over what the launcher sends, and goes on at the same place after a cut.

    Thread: one iterates, any may close(). Ends when nothing more will come, or after close(). Raises the client's errors;
    after one it is over. As a context manager it closes itself."""

    def __init__(self, client: Client, cursor: Cursor[Message], timeout: Optional[float]) -> None:
        self._client = client
        self._cursor = cursor
        self._attempts = Attempts(timeout)
        self._call: Any = None
        self._is_closed = False
        self._lock = threading.Lock()  # guards the two above

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        while True:
            try:
                message = self._next_of_call()
            except StopIteration:
                if self._is_closed or self._is_over():
                    self.close()
                    raise
                failure: MusterError = Unavailable("the launcherd has ended the stream, and leaves", is_from_launcher=True)
            except grpc.RpcError as error:
                if self._is_closed:
                    raise StopIteration from None
                failure = self._client._failure(error)
            except ValueError as why:  # close() of the client by another thread
                raise Cancelled("the client is closed") from why
            except MusterError as known:
                failure = known
            else:
                self._attempts.succeeded()
                self._client._has_contact = True
                if self._cursor.take(message):
                    return message
                continue
            self._pause_after(failure)

    def _next_of_call(self) -> Message:
        with self._lock:
            if self._is_closed:
                raise StopIteration
            if self._call is None:
                method = self._client._method(self._cursor.call)
                self._call = method(self._cursor.request, timeout=self._attempts.remaining())
            call = self._call
        return cast(Message, next(call))

    def _is_over(self) -> bool:
        job = self._client.get(self._cursor.request.job, ranks=False) if self._cursor.needs_job() else None
        return self._cursor.is_over(job)

    def _pause_after(self, failure: MusterError) -> None:
        with self._lock:
            self._call = None
        try:
            self._client._pause(self._attempts, failure, self._client._resume_for)
        except MusterError:
            self.close()
            raise

    def close(self) -> None:
        """Ends the stream. The launcher then sends nothing more. May be called twice."""
        with self._lock:
            self._is_closed = True
            call = self._call
        if call is not None:
            call.cancel()

    def __enter__(self) -> Stream[Message]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Client:
    """Calls one launcher: launcherd, or with fewer calls the hvdrun of a foreground job.

        with Client() as client:
            job = client.submit(["python3", "train.py"], size=8)
            print(client.wait(job).exit_code)

    Threads: all methods may be called from several threads at the same time. Not after a fork: a child needs a client of
    its own.
    Errors: MusterError and its subclasses (muster.client.errors), with the launcher's sentence.
    Repeated calls: while the launcher is UNAVAILABLE, for example because it restarts, calls are repeated with growing
    pauses, except for those that must not arrive twice: signal(), and kill() without at_once.
    `job` is always an id, or a unique beginning of one."""

    def __init__(self, launcher: Optional[str] = None, *, tls: Optional[TlsFiles] = None, timeout: float = 60.0,
                 connect_for: float = 0.0, retry_for: float = 30.0, resume_for: float = 600.0) -> None:
        """Finds the launcher's address, and connects at the first call.

        `launcher`: unix:/path, host:port or [v6]:port; by default as the command `muster` finds it (address.py).
        `tls`: files of the certificate, for a launcher by TCP; by default MUSTER_TLS_CERT, MUSTER_TLS_KEY, MUSTER_TLS_CA.
        All times are in seconds. `timeout`: for a call with its repetitions. `connect_for`: how long to try if no
        launcher has ever been there. `retry_for`: how long to repeat calls if it has. `resume_for`: the same for watch(),
        wait() and logs(), from the cut on.
        Raises InvalidArgument, and Unavailable if no launcher was named and none runs here."""
        self._address = find_address(launcher, tls)
        self._timeout = timeout
        self._connect_for = connect_for
        self._retry_for = retry_for
        self._resume_for = resume_for
        self._has_contact = False
        self._lock = threading.Lock()  # guards the next two
        self._channel: Any = None
        self._stub: Any = None
        self._closed = threading.Event()

    @property
    def launcher(self) -> str:
        """The launcher's address."""
        return str(self._address)

    @property
    def stub(self) -> Any:
        """The generated stub muster.v1.launcher_pb2_grpc.LauncherStub, for calls that this class lacks. They raise
        grpc.RpcError and are not repeated."""
        return self._connected()

    def close(self) -> None:
        """Ends all calls with Cancelled and closes the connection. May be called twice."""
        with self._lock:
            self._closed.set()
            channel, self._channel, self._stub = self._channel, None, None
        if channel is not None:
            channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    # How calls are made.

    def _connected(self) -> Any:
        with self._lock:
            if self._closed.is_set():
                raise Cancelled("the client is closed")
            if self._stub is None:
                self._channel = open_channel(self._address)
                self._has_contact = self._has_contact or bool(self._address.path)  # its socket was checked
                self._stub = cast(Any, launcher_pb2_grpc).LauncherStub(self._channel)
            return self._stub

    def _method(self, name: str) -> Any:
        return getattr(self._connected(), name)

    def _failure(self, error: grpc.RpcError) -> MusterError:
        failure = from_rpc(error, self.launcher, is_cancelled=self._closed.is_set())
        self._has_contact = self._has_contact or failure.is_from_launcher
        return failure

    def _pause(self, attempts: Attempts, failure: MusterError, retry_for: float) -> None:
        """Waits until the call may be sent again. Raises `failure` if it must not be. If no launcher has ever been there,
        the address is more likely wrong than the launcher restarting."""
        if self._closed.wait(attempts.pause_after(failure, retry_for if self._has_contact else self._connect_for)):
            raise Cancelled(f"the call to {self.launcher} was cancelled")
        if self._address.path:
            self._check_again()

    def _check_again(self) -> None:
        try:
            check_socket(self._address.path)
        except Unavailable:
            return  # the next attempt says so

    def _ask(self, name: str, request: Any, receive: Callable[[Any], Any] = lambda answer: answer) -> Any:
        """Sends a request until it is answered. `receive` reads the answer of a call that is a stream."""
        if not calls.may_repeat(request):
            # A connection that works makes it unlikely that the next call is cut.
            self._ask("GetCapabilities", launcher_pb2.GetCapabilitiesRequest())
        attempts = Attempts(self._timeout)
        while True:
            try:
                answer = receive(self._method(name)(request, timeout=attempts.remaining()))
                self._has_contact = True
                return answer
            except grpc.RpcError as error:
                failure = self._failure(error)
            except ValueError as why:  # close() by another thread
                raise Cancelled("the client is closed") from why
            except Unavailable as known:
                failure = known
            if isinstance(failure, Unavailable) and not failure.is_from_launcher and not calls.may_repeat(request):
                raise left_in_doubt(failure, name, self.launcher)
            self._pause(attempts, failure, self._retry_for)

    # Jobs.

    def submit(self, command: Union[Sequence[Text], SubmitRequest], **fields: Unpack[JobFields]) -> str:
        """Submits a job and returns its id. The launcher has then stored the job, which runs exactly once.

        `command` is a list of words, or a complete SubmitRequest. The other arguments are those of JobFields: `size`,
        `hosts`, `environment`, `name`, `timeout`, …
        Errors: InvalidArgument (also if the job needs more slots than all hosts have), ResourceExhausted (the launcher's
        disk is full), AlreadyExists (the request_id was used for another job)."""
        return str(self._ask("Submit", job_request(command, **fields)).job_id)

    def submit_many(self, requests: Iterable[SubmitRequest], *, window: int = 64) -> List[Union[str, MusterError]]:
        """Submits jobs, up to `window` of them at the same time. Returns for each request the id, or the error.

        Make the requests by job_request(). They begin in their order, but the launcher may store them in another one."""
        results: List[Union[str, MusterError]] = []
        under_way: Deque[Tuple[SubmitRequest, Any]] = collections.deque()
        for request in requests:
            complete = job_request(request)
            if len(under_way) >= window:
                results.append(self._submitted(*under_way.popleft()))
            under_way.append((complete, self._begin_submit(complete)))
        results.extend(self._submitted(*pair) for pair in under_way)
        return results

    def _begin_submit(self, request: SubmitRequest) -> Any:
        try:
            return self._method("Submit").future(request, timeout=self._timeout)
        except (MusterError, ValueError):
            return None  # _submitted() tries again, and reports the error

    def _submitted(self, request: SubmitRequest, call: Any) -> Union[str, MusterError]:
        """Returns the result of one submission. Sends it again if its first attempt has failed: it has a request_id."""
        try:
            if call is None:
                return str(self._ask("Submit", request).job_id)
            job = str(call.result().job_id)
            self._has_contact = True
            return job
        except (grpc.RpcError, grpc.FutureCancelledError):
            failure = self._failure(call)  # a call is its own error
        except MusterError as known:
            return known
        return self._submitted(request, None) if isinstance(failure, Unavailable) else failure

    def get(self, job: str, *, ranks: bool = True) -> Job:
        """Returns one job with its hosts, and with at most 10,000 of its ranks unless `ranks` is False."""
        return cast(Job, self._ask("GetJob", calls.get_job(job, ranks)))

    def list_jobs(self, *, all: bool = False, filter: str = "", states: Iterable[JobState] = (), order: str = "",
                  reverse: bool = False, page_size: int = 100, page_token: str = "") -> JobPage:
        """Returns one page of jobs without their ranks, newest first.

        `all`: also ended jobs. `filter`: words that all must be in the job's id, name, command, state, hosts or labels.
        `states`: only these. `order`: "state", "name", "size", "priority" or "time". `page_size`: at most 1,000.
        `page_token`: next_page_token of the page before."""
        answer = self._ask("ListJobs", calls.list_jobs(all, filter, states, order, reverse, page_size, page_token))
        return JobPage(list(answer.jobs), answer.next_page_token, answer.total)

    def jobs(self, *, all: bool = False, filter: str = "", states: Iterable[JobState] = (), order: str = "",
             reverse: bool = False, page_size: int = 500) -> Iterator[Job]:
        """Iterates over the jobs of all pages. The arguments are those of list_jobs()."""
        chosen, token = list(states), ""
        while True:
            page = self.list_jobs(all=all, filter=filter, states=chosen, order=order, reverse=reverse, page_size=page_size,
                                  page_token=token)
            yield from page.jobs
            token = page.next_page_token
            if not token:
                return

    def watch(self, job: str, *, from_sequence: int = 0, timeout: Optional[float] = None) -> Stream[Event]:
        """Iterates over the job's events from the number `from_sequence` on, as they happen, until the job has ended.

        No event comes twice and none is lost, also if launcherd is restarted meanwhile. `timeout` is in seconds and for
        the whole stream; then it raises DeadlineExceeded. None means no limit."""
        return Stream(self, WatchCursor(job, from_sequence), timeout)

    def wait(self, job: str, *, timeout: Optional[float] = None) -> Job:
        """Waits until the job has ended and returns it with its ranks. Raises DeadlineExceeded after `timeout` seconds."""
        now = self.get(job, ranks=False)
        try:
            with self.watch(now.id, from_sequence=now.last_event + 1, timeout=timeout) as events:
                for _ in events:
                    pass
        except DeadlineExceeded as late:
            raise DeadlineExceeded(f"job {job} has not ended within {timeout:g} s") from late
        return self.get(now.id)

    def logs(self, job: str, *, follow: bool = False, ranks: Iterable[int] = (), from_position: int = 0,
             since: Optional[datetime.datetime] = None, tail_lines: int = 0) -> Stream[LogChunk]:
        """Iterates over the output of the job's ranks in the order in which it arrived.

        `follow`: goes on until the job has ended and all its output was sent. `ranks`: only these. `from_position`:
        `next_position` of the last chunk that the caller has; 0 means the beginning. `since`: only output that arrived
        later. `tail_lines`: only about so many last lines. No byte comes twice and none is lost by a cut."""
        request = calls.logs(job, follow, ranks, from_position, since, tail_lines)
        return Stream(self, LogsCursor(request), None)

    def signal(self, job: str, signal: Union[int, str]) -> None:
        """Sends a signal, such as "USR1", to all ranks; the job continues. Never repeated: after Unavailable it may have
        arrived. Errors: InvalidArgument (a signal that ends the job: use kill()), FailedPrecondition (no ranks run)."""
        self._ask("Signal", calls.signal(job, signal))

    def exec(self, job: str, command: Sequence[Text], *, rank: Optional[int] = None, input: bytes = b"",
             timeout: Optional[float] = None) -> ExecResult:
        """Runs a command beside a rank of a running job, and returns how it ended and what it wrote.

        `command` is a list of words. `rank` may be left out in a job with one rank. `input` is the command's stdin. Never
        repeated: after Unavailable the command may have run. After `timeout` seconds the command ends, and
        DeadlineExceeded is raised. Errors: InvalidArgument (no such rank), FailedPrecondition (the rank does not run)."""
        feed = InputFeed(first_request(job, command, rank), input)
        collector = Collector()
        call = None
        try:
            call = self._method("Exec")(iter(feed), timeout=timeout)
            for event in call:
                feed.add_room(collector.take(event))
        except grpc.RpcError as error:
            raise self._failure(error) from None
        except ValueError as why:  # close() by another thread
            raise Cancelled("the client is closed") from why
        finally:
            if call is not None:
                call.cancel()  # after KeyboardInterrupt, the command must end; else the call is over
            feed.close()
        return collector.finished()

    def kill(self, job: str, *, at_once: bool = False) -> None:
        """Ends the job: SIGTERM to all ranks, SIGKILL after its grace time, or `at_once`. Returns when the stop has begun.
        A second call kills at once, so without `at_once` the client does not repeat it. Errors: FailedPrecondition (the
        job has ended)."""
        self._ask("Kill", launcher_pb2.KillRequest(job=job, at_once=at_once))

    def hold(self, job: str) -> None:
        """Keeps a waiting job from starting until release(). Errors: FailedPrecondition (it no longer waits)."""
        self._ask("Hold", launcher_pb2.HoldRequest(job=job))

    def release(self, job: str) -> None:
        """Ends a hold. Does nothing for a job that is not held."""
        self._ask("Release", launcher_pb2.ReleaseRequest(job=job))

    def update(self, job: str, *, priority: Optional[int] = None, deadline: Optional[datetime.datetime] = None,
               no_deadline: bool = False, after: Optional[Iterable[str]] = None) -> None:
        """Changes a job that has not ended. What is None stays. `no_deadline` removes the deadline. `after` replaces all
        jobs that it waits for, as JobFields.after; an empty list removes them. Errors: FailedPrecondition (it has ended, or
        jobs would wait for each other in a circle), Aborted (another change is being stored: call again)."""
        self._ask("UpdateJob", calls.update(job, priority, deadline, no_deadline, after))

    def elements(self, job: str, *, page_size: int = 1000) -> Iterator[ElementRange]:
        """Iterates over the elements of an array, as ranges of neighbours that have the same state and exit code. Errors:
        FailedPrecondition (the job is not an array)."""
        token = ""
        while True:
            request = launcher_pb2.ListElementsRequest(job=job, page_size=page_size, page_token=token)
            answer = self._ask("ListElements", request)
            yield from answer.elements
            token = answer.next_page_token
            if not token:
                return

    def rerun(self, job: str, *, request_id: Optional[str] = None) -> str:
        """Submits the job once more, with its environment, and returns the id of the new one. Errors: as submit(), and
        FailedPrecondition (the launcher no longer has the environment)."""
        return str(self._ask("Rerun", calls.rerun(job, request_id)).job_id)

    def resize(self, job: str, size: int = 0, *, add_hosts: Iterable[Union[str, WantedHost]] = ()) -> ResizeResponse:
        """Changes the number of ranks of a running job that allows it, to `size` or by the hosts that it shall have too.
        Errors: FailedPrecondition, OutOfRange, ResourceExhausted (too few slots are free)."""
        return cast(ResizeResponse, self._ask("Resize", calls.resize(job, size, add_hosts)))

    # Processes, output and load of a job.

    def stacks(self, job: str, *, ranks: Iterable[int] = (), native: bool = False) -> List[ProcessStack]:
        """Returns where ranks and the processes that they started are, as soon as all hosts have answered. A host that does
        not answer in time is a message without a pid.

        `ranks`: only these. `native`: also the native stacks of processes that run Python. Errors: InvalidArgument (the job
        lacks the rank), FailedPrecondition (no ranks run)."""
        return cast(List[ProcessStack], self._ask("Stacks", calls.stacks(job, ranks, native), list))

    def hang(self, job: str) -> HangReport:
        """Looks at all ranks twice and returns which of them seem to hold the job up. Takes some seconds. Errors:
        FailedPrecondition (no ranks run)."""
        return cast(HangReport, self._ask("ExplainHang", launcher_pb2.ExplainHangRequest(job=job)))

    # Hosts, and the launcher itself.

    def history(self, job: str = "", *, hosts: Iterable[str] = (),
                since: Optional[datetime.datetime] = None) -> HistoryResponse:
        """Returns how busy a job and its hosts were; without `job` all hosts, or `hosts`. `since`: only later points;
        launcherd has about one hour."""
        return cast(HistoryResponse, self._ask("History", calls.history(job, hosts, since)))

    def cleanup(self, *, hosts: Iterable[str] = (), job: str = "", dry_run: bool = False) -> List[CleanupReport]:
        """Ends the processes that dead jobs have left on hosts, and removes their files. Returns a report for each host.
        Needs the role admin.

        `hosts`: only these. `job`: only what this job has left; a full id. `dry_run`: only report. Without `dry_run` it is
        never repeated: after Unavailable it may have been done."""
        return cast(List[CleanupReport], self._ask("Cleanup", calls.cleanup(hosts, job, dry_run), list))

    def hosts(self) -> List[LauncherHost]:
        """Returns the launcher's hosts in the order of its list."""
        return list(self._ask("ListHosts", launcher_pb2.ListHostsRequest()).hosts)

    def drain(self, host: str, reason: str = "") -> LauncherHost:
        """Keeps new jobs from a host; those that run there continue. Needs the role admin."""
        return cast(LauncherHost, self._ask("DrainHost", launcher_pb2.DrainHostRequest(host=host, reason=reason)))

    def resume(self, host: str) -> LauncherHost:
        """Ends drain(). Needs the role admin."""
        return cast(LauncherHost, self._ask("ResumeHost", launcher_pb2.ResumeHostRequest(host=host)))

    def capabilities(self) -> Capabilities:
        """Returns the launcher's version, and the calls and options that it serves."""
        return cast(Capabilities, self._ask("GetCapabilities", launcher_pb2.GetCapabilitiesRequest()))
