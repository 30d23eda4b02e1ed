"""AsyncClient calls a launcher from asyncio. Client, in client.py, is the same for threads, and has the documentation of
each call.

Read AsyncClient._ask first, then AsyncStream, then the calls.
"""

from __future__ import annotations

import asyncio
import datetime
from types import TracebackType
from typing import (TYPE_CHECKING, Any, AsyncIterator, Awaitable, Callable, Generic, Iterable, List, Optional,
                    Sequence, Type, Union, cast)

from muster.client import calls
from muster.client._stubs import grpc, launcher_pb2, launcher_pb2_grpc
from muster.client.address import TlsFiles, check_socket, find_address
from muster.client.channels import open_async_channel
from muster.client.commands import PIECE, WINDOW, Collector, ExecResult, first_request
from muster.client.cursors import Cursor, LogsCursor, Message, WatchCursor
from muster.client.errors import Cancelled, DeadlineExceeded, MusterError, Unavailable, from_rpc, left_in_doubt
from muster.client.jobs import (Capabilities, CleanupReport, ElementRange, Event, HangReport, HistoryResponse, Job, JobFields,
                                JobPage, JobState, LauncherHost, LogChunk, ProcessStack, ResizeResponse, SubmitRequest,
                                Text, WantedHost, job_request)
from muster.client.retry import Attempts

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _is_cancelled_task() -> bool:
    """True if the current task itself was cancelled. Python knows this since 3.11; before, False."""
    task = asyncio.current_task()
    return task is not None and getattr(task, "cancelling", lambda: 0)() > 0


async def _answer(call: Any) -> Any:
    return await call


async def _all_of(call: Any) -> List[Any]:
    return [message async for message in call]


class AsyncStream(Generic[Message]):
    """Iterates over what the launcher sends, and goes on at the same place after a cut.

    One task iterates; others of the same loop may close(). Ends when nothing more will come, or after close(). Raises the
    client's errors; after one it is over. As an async context manager it closes itself."""

    def __init__(self, client: AsyncClient, cursor: Cursor[Message], timeout: Optional[float]) -> None:
        self._client = client
        self._cursor = cursor
        self._attempts = Attempts(timeout)
        self._call: Any = None
        self._is_closed = False

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        while not self._is_closed:
            try:
                message = await self._next_of_call()
            except grpc.RpcError as error:
                failure = self._client._failure(error)
            except asyncio.CancelledError:
                self._client._raise_if_closed()
                if not self._is_closed or _is_cancelled_task():
                    self.close()
                    raise
                break  # close() by another task
            except MusterError as known:
                failure = known
            else:
                if message is not None:
                    self._attempts.succeeded()
                    self._client._has_contact = True
                    if self._cursor.take(message):
                        return message
                    continue
                if await self._is_over():
                    self.close()
                    break
                failure = Unavailable("the launcherd has ended the stream, and leaves", is_from_launcher=True)
            if not self._is_closed:
                await self._pause_after(failure)
        raise StopAsyncIteration

    async def _next_of_call(self) -> Optional[Message]:
        """Returns the next message. None means that the launcher has ended the stream."""
        if self._call is None:
            method = await self._client._method(self._cursor.call)
            self._call = method(self._cursor.request, timeout=self._attempts.remaining())
        message = await self._call.read()
        return None if message is grpc.aio.EOF else cast(Message, message)

    async def _is_over(self) -> bool:
        job = await self._client.get(self._cursor.request.job, ranks=False) if self._cursor.needs_job() else None
        return self._cursor.is_over(job)

    async def _pause_after(self, failure: MusterError) -> None:
        self._call = None
        try:
            await self._client._pause(self._attempts, failure, self._client._resume_for)
        except MusterError:
            self.close()
            raise

    def close(self) -> None:
        """Ends the stream. The launcher then sends nothing more. May be called twice."""
        self._is_closed = True
        if self._call is not None:
            self._call.cancel()

    async def __aenter__(self) -> AsyncStream[Message]:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class AsyncClient:
    """Calls one launcher from the tasks of one event loop.

        async with AsyncClient() as client:
            job = await client.submit(["python3", "train.py"], size=8)
            async for event in client.watch(job):
                print(event)

    Threads: only that of its event loop. Make it in a coroutine. Errors, repeated calls and the arguments are those of
    Client."""

    def __init__(self, launcher: Optional[str] = None, *, tls: Optional[TlsFiles] = None, timeout: float = 60.0,
                 connect_for: float = 0.0, retry_for: float = 30.0, resume_for: float = 600.0) -> None:
        """As Client()."""
        self._address = find_address(launcher, tls)
        self._timeout = timeout
        self._connect_for = connect_for
        self._retry_for = retry_for
        self._resume_for = resume_for
        self._has_contact = False
        self._channel: Any = None
        self._stub: Any = None
        self._is_closed = False
        self._connecting = asyncio.Lock()

    @property
    def launcher(self) -> str:
        """The launcher's address."""
        return str(self._address)

    async def stub(self) -> Any:
        """As Client.stub, of grpc.aio."""
        return await self._connected()

    async def close(self) -> None:
        """Ends all calls and closes the connection. May be called twice."""
        self._is_closed = True
        channel, self._channel, self._stub = self._channel, None, None
        if channel is not None:
            await channel.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await self.close()

    # How calls are made.

    async def _check_socket(self) -> None:
        if self._address.path:
            await asyncio.get_running_loop().run_in_executor(None, check_socket, self._address.path)

    async def _connected(self) -> Any:
        async with self._connecting:
            if self._stub is None and not self._is_closed:
                await self._check_socket()
                self._channel = open_async_channel(self._address)
                self._has_contact = self._has_contact or bool(self._address.path)  # its socket was checked
                self._stub = cast(Any, launcher_pb2_grpc).LauncherStub(self._channel)
            if self._is_closed:
                raise Cancelled("the client is closed")
            return self._stub

    def _raise_if_closed(self) -> None:
        """close() cancels calls. Their tasks see this as CancelledError, unless they were cancelled themselves."""
        if self._is_closed and not _is_cancelled_task():
            raise Cancelled("the client is closed")

    async def _method(self, name: str) -> Any:
        return getattr(await self._connected(), name)

    def _failure(self, error: grpc.RpcError) -> MusterError:
        failure = from_rpc(error, self.launcher, is_cancelled=self._is_closed)
        self._has_contact = self._has_contact or failure.is_from_launcher
        return failure

    async def _pause(self, attempts: Attempts, failure: MusterError, retry_for: float) -> None:
        """Waits until the call may be sent again. Raises `failure` if it must not be."""
        await asyncio.sleep(attempts.pause_after(failure, retry_for if self._has_contact else self._connect_for))
        try:
            await self._check_socket()
        except Unavailable:
            return  # the next attempt says so

    async def _ask(self, name: str, request: Any, receive: Callable[[Any], Awaitable[Any]] = _answer) -> Any:
        """Sends a request until it is answered. `receive` reads the answer."""
        if not calls.may_repeat(request):
            # A connection that works makes it unlikely that the next call is cut.
            await self._ask("GetCapabilities", launcher_pb2.GetCapabilitiesRequest())
        attempts = Attempts(self._timeout)
        while True:
            try:
                answer = await receive((await self._method(name))(request, timeout=attempts.remaining()))
                self._has_contact = True
                return answer
            except grpc.RpcError as error:
                failure = self._failure(error)
            except asyncio.CancelledError:
                self._raise_if_closed()
                raise
            except Unavailable as known:
                failure = known
            self._raise_if_closed()
            if isinstance(failure, Unavailable) and not failure.is_from_launcher and not calls.may_repeat(request):
                raise left_in_doubt(failure, name, self.launcher)
            await self._pause(attempts, failure, self._retry_for)

    # Jobs.

    async def submit(self, command: Union[Sequence[Text], SubmitRequest], **fields: Unpack[JobFields]) -> str:
        """As Client.submit(). Tasks that submit at the same time share the launcher's writes to its disk."""
        return str((await self._ask("Submit", job_request(command, **fields))).job_id)

    async def submit_many(self, requests: Iterable[SubmitRequest], *, window: int = 64) -> List[Union[str, MusterError]]:
        """As Client.submit_many()."""
        free = asyncio.Semaphore(window)

        async def one(request: SubmitRequest) -> Union[str, MusterError]:
            async with free:
                try:
                    return await self.submit(request)
                except MusterError as error:
                    return error

        return list(await asyncio.gather(*(one(request) for request in requests)))

    async def get(self, job: str, *, ranks: bool = True) -> Job:
        """As Client.get()."""
        return cast(Job, await self._ask("GetJob", calls.get_job(job, ranks)))

    async def list_jobs(self, *, all: bool = False, filter: str = "", states: Iterable[JobState] = (), order: str = "",
                        reverse: bool = False, page_size: int = 100, page_token: str = "") -> JobPage:
        """As Client.list_jobs()."""
        answer = await self._ask("ListJobs", calls.list_jobs(all, filter, states, order, reverse, page_size, page_token))
        return JobPage(list(answer.jobs), answer.next_page_token, answer.total)

    async def jobs(self, *, all: bool = False, filter: str = "", states: Iterable[JobState] = (), order: str = "",
                   reverse: bool = False, page_size: int = 500) -> AsyncIterator[Job]:
        """As Client.jobs()."""
        chosen, token = list(states), ""
        while True:
            page = await self.list_jobs(all=all, filter=filter, states=chosen, order=order, reverse=reverse,
                                        page_size=page_size, page_token=token)
            for job in page.jobs:
                yield job
            token = page.next_page_token
            if not token:
                return

    def watch(self, job: str, *, from_sequence: int = 0, timeout: Optional[float] = None) -> AsyncStream[Event]:
        """As Client.watch()."""
        return AsyncStream(self, WatchCursor(job, from_sequence), timeout)

    async def wait(self, job: str, *, timeout: Optional[float] = None) -> Job:
        """As Client.wait()."""
        now = await self.get(job, ranks=False)
        try:
            async with self.watch(now.id, from_sequence=now.last_event + 1, timeout=timeout) as events:
                async for _ in events:
                    pass
        except DeadlineExceeded as late:
            raise DeadlineExceeded(f"job {job} has not ended within {timeout:g} s") from late
        return await self.get(now.id)

    def logs(self, job: str, *, follow: bool = False, ranks: Iterable[int] = (), from_position: int = 0,
             since: Optional[datetime.datetime] = None, tail_lines: int = 0) -> AsyncStream[LogChunk]:
        """As Client.logs()."""
        return AsyncStream(self, LogsCursor(calls.logs(job, follow, ranks, from_position, since, tail_lines)), None)

    async def signal(self, job: str, signal: Union[int, str]) -> None:
        """As Client.signal()."""
        await self._ask("Signal", calls.signal(job, signal))

    async def exec(self, job: str, command: Sequence[Text], *, rank: Optional[int] = None, input: bytes = b"",
                   timeout: Optional[float] = None) -> ExecResult:
        """As Client.exec(). If its task is cancelled, the command ends."""
        first = first_request(job, command, rank)
        collector = Collector()
        call = (await self._method("Exec"))(timeout=timeout)
        room = WINDOW
        has_room = asyncio.Event()

        async def write() -> None:
            nonlocal room
            await call.write(first)
            at, is_over = 0, False
            while not is_over:
                while room == 0:
                    has_room.clear()
                    await has_room.wait()
                size = min(PIECE, room, len(input) - at)
                is_over = at + size == len(input)
                await call.write(launcher_pb2.ExecRequest(input=input[at:at + size], end_of_input=is_over))
                at, room = at + size, room - size

        # A task of its own: a command that ends without reading its input must not keep its last output back.
        writer = asyncio.ensure_future(write())
        try:
            event = await call.read()
            while event is not grpc.aio.EOF:
                room += collector.take(event)
                has_room.set()
                event = await call.read()
            return collector.finished()
        except grpc.RpcError as error:
            raise self._failure(error) from None
        except asyncio.CancelledError:
            self._raise_if_closed()
            raise
        finally:
            call.cancel()
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def kill(self, job: str, *, at_once: bool = False) -> None:
        """As Client.kill()."""
        await self._ask("Kill", launcher_pb2.KillRequest(job=job, at_once=at_once))

    async def hold(self, job: str) -> None:
        """As Client.hold()."""
        await self._ask("Hold", launcher_pb2.HoldRequest(job=job))

    async def release(self, job: str) -> None:
        """As Client.release()."""
        await self._ask("Release", launcher_pb2.ReleaseRequest(job=job))

    async def update(self, job: str, *, priority: Optional[int] = None, deadline: Optional[datetime.datetime] = None,
                     no_deadline: bool = False, after: Optional[Iterable[str]] = None) -> None:
        """As Client.update()."""
        await self._ask("UpdateJob", calls.update(job, priority, deadline, no_deadline, after))

    async def elements(self, job: str, *, page_size: int = 1000) -> AsyncIterator[ElementRange]:
        """As Client.elements()."""
        token = ""
        while True:
            request = launcher_pb2.ListElementsRequest(job=job, page_size=page_size, page_token=token)
            answer = await self._ask("ListElements", request)
            for each in answer.elements:
                yield each
            token = answer.next_page_token
            if not token:
                return

    async def rerun(self, job: str, *, request_id: Optional[str] = None) -> str:
        """As Client.rerun()."""
        return str((await self._ask("Rerun", calls.rerun(job, request_id))).job_id)

    async def resize(self, job: str, size: int = 0, *,
                     add_hosts: Iterable[Union[str, WantedHost]] = ()) -> ResizeResponse:
        """As Client.resize()."""
        return cast(ResizeResponse, await self._ask("Resize", calls.resize(job, size, add_hosts)))

    # Processes, output and load of a job.

    async def stacks(self, job: str, *, ranks: Iterable[int] = (), native: bool = False) -> List[ProcessStack]:
        """As Client.stacks()."""
        return cast(List[ProcessStack], await self._ask("Stacks", calls.stacks(job, ranks, native), _all_of))

    async def hang(self, job: str) -> HangReport:
        """As Client.hang()."""
        return cast(HangReport, await self._ask("ExplainHang", launcher_pb2.ExplainHangRequest(job=job)))

    # Hosts, and the launcher itself.

    async def history(self, job: str = "", *, hosts: Iterable[str] = (),
                      since: Optional[datetime.datetime] = None) -> HistoryResponse:
        """As Client.history()."""
        return cast(HistoryResponse, await self._ask("History", calls.history(job, hosts, since)))

    async def cleanup(self, *, hosts: Iterable[str] = (), job: str = "", dry_run: bool = False) -> List[CleanupReport]:
        """As Client.cleanup()."""
        return cast(List[CleanupReport], await self._ask("Cleanup", calls.cleanup(hosts, job, dry_run), _all_of))

    async def hosts(self) -> List[LauncherHost]:
        """As Client.hosts()."""
        return list((await self._ask("ListHosts", launcher_pb2.ListHostsRequest())).hosts)

    async def drain(self, host: str, reason: str = "") -> LauncherHost:
        """As Client.drain()."""
        return cast(LauncherHost, await self._ask("DrainHost", launcher_pb2.DrainHostRequest(host=host, reason=reason)))

    async def resume(self, host: str) -> LauncherHost:
        """As Client.resume()."""
        return cast(LauncherHost, await self._ask("ResumeHost", launcher_pb2.ResumeHostRequest(host=host)))

    async def capabilities(self) -> Capabilities:
        """As Client.capabilities()."""
        return cast(Capabilities, await self._ask("GetCapabilities", launcher_pb2.GetCapabilitiesRequest()))
