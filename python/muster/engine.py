"""Named operations on memory, without a framework. muster.numpy and the frameworks' modules share them.

A `Buffer` describes memory. A submission returns a `Ticket`. Thread-safe.
"""

import collections
import ctypes
import itertools
import os
import threading
from ctypes import byref, c_int64, c_void_p
from typing import Any, NamedTuple, Optional, Tuple

from muster import _library as lib
from muster.exceptions import HorovodInternalError, RanksDifferError

# Horovod's reductions.
Average, Sum, Adasum, Min, Max, Product = range(6)
_OPS = {Average: lib.OP_AVG, Sum: lib.OP_SUM, Adasum: lib.OP_SUM, Min: lib.OP_MIN, Max: lib.OP_MAX,
        Product: lib.OP_PROD}
_DTYPE_SIZES = (2, 2, 4, 8, 1, 1, 2, 4, 8, 1)
# A wait returns to Python at this interval, so that Python can handle signals.
_SLICE_SECONDS = 0.1


class Buffer(NamedTuple):
    """One tensor: the address of its elements (contiguous, in C order), its type (muster_dtype) and its shape.

    `out` is 0 if the operation allocates its result itself. On a GPU it may then be the address of memory for the
    result (muster_tensor).
    `keep` owns the memory. The ticket holds it until the operation is done.
    `stream` is the cudaStream_t whose work computes memory of a GPU; 0 means the default stream. None means that the
    memory is the host's."""
    in_: int
    out: int
    dtype: int
    shape: Tuple[int, ...]
    keep: Any
    stream: Optional[int] = None


class Output(NamedTuple):
    """A result that libmuster allocated: its memory, which lives as long as `data`, its type and its shape."""
    data: Any
    dtype: int
    shape: Tuple[int, ...]


class Abandoned:
    """Keeps the memory of running operations whose tickets were dropped, until they are done. It has no lock, because
    the garbage collector may call add() at any moment, even inside another add()."""

    def __init__(self):
        self._waiting = collections.deque()

    def add(self, handle, keep, is_done, free):
        """Adds `handle`, and frees operations that are done. `is_done` and `free` are the functions for this handle."""
        self._waiting.append((handle, keep, is_done, free))
        for _ in range(len(self._waiting)):
            try:
                first = self._waiting.popleft()
            except IndexError:  # another thread has taken the last one
                return
            handle, _, is_done, free = first
            if is_done(handle):
                free(handle)
            else:
                self._waiting.append(first)


abandoned = Abandoned()
forked = []  # not empty after this process was forked; its tickets then belong to the parent
os.register_at_fork(after_in_child=lambda: forked.append(True))


class Ticket:
    """A submission. It keeps its tensors until the operation is done.

    The ticket exists before the operation, and submit() lets libmuster write the handle into it. So an exception, such
    as the KeyboardInterrupt of a signal, cannot leave a running operation without the object that keeps its tensors."""

    def __init__(self, keep):
        self._handle = c_void_p()  # a muster_ticket; NULL if nothing was submitted
        self._keep = keep
        self._lock = threading.Lock()
        self._failure = None
        self._is_done = False

    def submit(self, function, engine, submission, error):
        """Submits. `function` is muster_engine_submit or a variant of it. ValueError: the operation is not possible, or
        its name is in use. HorovodInternalError: the engine has ended."""
        code = function(engine, submission, byref(self._handle), byref(error))
        if code == lib.OK:
            return self
        message, rank, host = lib.take_error(error)
        error.value = None
        if code == lib.INVALID:
            raise ValueError(message)
        raise HorovodInternalError(message, rank=rank, host=host)

    def __del__(self, is_done=lib.muster_ticket_is_done, free=lib.muster_ticket_free, abandoned=abandoned,
                forked=forked):
        # Keep the tensors until the operation is done, because it writes to them.
        # Use functions only through default arguments: when Python ends, it may delete this module's names before the
        # last ticket.
        # In a forked child do nothing: a thread of the parent may have held a lock, which stays locked here.
        if not self._handle or forked:
            return
        if not self._is_done and not is_done(self._handle):
            abandoned.add(self._handle, self._keep, is_done, free)
        else:
            free(self._handle)

    def done(self):
        """Returns True if the operation has succeeded or failed."""
        return self._is_done or bool(lib.muster_ticket_is_done(self._handle))

    def wait(self):
        """Waits until the operation is done. While it waits, Python handles signals.
        HorovodInternalError: the operation failed. RanksDifferError: the ranks submitted different things. ValueError:
        this is a forked process, and its parent has not waited before the fork."""
        if not self._is_done:
            if forked:
                raise ValueError("a forked process cannot wait for operations of its parent: wait before the fork")
            with self._lock:
                if not self._is_done:
                    self._wait()
        if self._failure is not None:
            kind, (message, rank, host) = self._failure
            raise kind(message, rank=rank, host=host)

    def _wait(self):
        error = c_void_p()
        while True:
            code = lib.muster_ticket_wait(self._handle, _SLICE_SECONDS, byref(error))
            if code == lib.OK:
                break
            if code != lib.TIMEOUT or error:
                kind = RanksDifferError if code == lib.MISMATCH else HorovodInternalError
                self._failure = kind, lib.take_error(error)
                break
        self._is_done = True
        self._keep = None

    def _output(self, index):
        found = lib.Output()
        if lib.muster_ticket_output(self._handle, index, byref(found)) != lib.OK:
            raise IndexError(f"the operation has no output {index}")
        return found

    def output(self, index=0):
        """Returns the result for tensor `index` of a successful allgather, alltoall or reducescatter."""
        found = self._output(index)
        shape = tuple(found.shape[i] for i in range(found.dimensions))
        size = _DTYPE_SIZES[found.type]
        for dimension in shape:
            size *= dimension
        data = (ctypes.c_byte * size).from_address(found.data)
        data._ticket = self  # keeps the ticket, which owns the memory
        return Output(data, found.type, shape)

    def shape(self, index=0):
        """Returns the shape of output(index), which may lie on a GPU."""
        found = self._output(index)
        return tuple(found.shape[i] for i in range(found.dimensions))

    def received_splits(self, ranks):
        """Returns the number of rows from each rank, for a successful alltoall."""
        splits = lib.muster_ticket_received_splits(self._handle)
        return [splits[i] for i in range(ranks)]

    def last_joined(self):
        """Returns the rank of the process set that joined last, for a successful join."""
        return lib.muster_ticket_last_joined(self._handle)


def _describe(kind, name, buffers, op, root=0, prescale=1.0, postscale=1.0, splits=None, wire=lib.WIRE_SAME,
              alone=False):
    """Returns the muster_submission, with everything that it points to. `wire` is a muster_wire: the type to which
    float32 tensors of a GPU are cast before they are sent. `alone`: the tensors are packed with no others."""
    count = len(buffers)
    tensors = (lib.Tensor * count)()
    for tensor, buffer in zip(tensors, buffers):
        dimensions = len(buffer.shape)
        tensor.in_ = buffer.in_
        tensor.out = buffer.out
        tensor.dimensions = dimensions
        tensor.shape = (c_int64 * dimensions)(*buffer.shape)
        tensor.type = buffer.dtype
    if op == Adasum:
        if kind != lib.ALLREDUCE:
            raise ValueError(f"'{name}': Adasum is for allreduce only")
        kind = lib.ADASUM
    if op not in _OPS:
        raise ValueError(f"'{name}': op={op!r} is unknown: use Average, Sum, Adasum, Min, Max or Product")
    streams = {buffer.stream for buffer in buffers}
    if len(streams) > 1:
        raise ValueError(f"'{name}': the tensors are not all on the CPU, or not all on one GPU")
    stream = streams.pop() if streams else None
    return lib.Submission(ctypes.sizeof(lib.Submission), name.encode(), kind, _OPS[op], root, count, tensors, prescale,
                          postscale, None if splits is None else (c_int64 * len(splits))(*splits), stream is not None,
                          stream, wire, alone=alone)


def _submit_function(is_on_gpu):
    # For tensors on a GPU, use the variant that releases the GIL. libmuster calls the driver to mark the stream, and
    # the driver waits if the GPU's queue is full. The thread that empties the queue may need the GIL: another thread of
    # the program, or the thread that calls `allocate`.
    # Other submissions never wait. They are shorter than releasing and acquiring the GIL.
    return lib.muster_engine_submit_on_gpu if is_on_gpu else lib.muster_engine_submit


def submit(engine, kind, name, buffers, op=Sum, root=0, prescale=1.0, postscale=1.0, splits=None,
           wire=lib.WIRE_SAME, allocate=None):
    """Submits to `engine` (a muster_engine) and returns a Ticket. ValueError: the operation is not possible, or its
    name is in use. HorovodInternalError: the engine has ended.
    `allocate(index, bytes)` runs on a thread of libmuster. It returns the address of memory for a result on a GPU. None
    means that memory could not be allocated."""
    submission = _describe(kind, name, buffers, op, root, prescale, postscale, splits, wire)
    callback = lib.ALLOCATE() if allocate is None else lib.ALLOCATE(lambda _, index, size: allocate(index, size))
    submission.allocate = callback
    ticket = Ticket([callback, *(buffer.keep for buffer in buffers)])
    return ticket.submit(_submit_function(submission.on_gpu), engine, byref(submission), c_void_p())


class RepeatedReduction:
    """An allreduce in place that is described once and submitted many times. Every time the memory must have the type
    and shape of `buffer`. Not thread-safe."""

    def __init__(self, name, buffer, op, prescale=1.0, postscale=1.0, wire=lib.WIRE_SAME, alone=False):
        self._submission = _describe(lib.ALLREDUCE, name, [buffer], op, prescale=prescale, postscale=postscale,
                                     wire=wire, alone=alone)
        self._tensor = self._submission.tensors[0]
        self._error = c_void_p()
        self._function, self._argument = _submit_function(self._submission.on_gpu), byref(self._submission)

    def submit(self, engine, address, keep, stream=None):
        """Submits the memory at `address`. `keep` owns it, and `stream` computes it (as in Buffer)."""
        self._tensor.in_ = self._tensor.out = address
        self._submission.stream = stream
        return Ticket(keep).submit(self._function, engine, self._argument, self._error)


class Handles:
    """Horovod's integer handles. Each belongs to a ticket and a function that makes the ticket's result."""

    def __init__(self):
        self._lock = threading.RLock()  # re-entrant, because a signal handler may interrupt its holder
        self._numbers = itertools.count()
        self._waiting = {}

    def add(self, ticket, finish):
        """Returns a new handle. `finish(ticket)` makes the result once the ticket is done."""
        with self._lock:
            handle = next(self._numbers)
            self._waiting[handle] = (ticket, finish)
        return handle

    def poll(self, handle):
        """Returns True if synchronize() would return at once. ValueError: the handle is unknown or was used before."""
        with self._lock:
            waiting = self._waiting.get(handle)
        if waiting is None:
            raise ValueError(f"handle {handle} is unknown, or was synchronized before")
        return waiting[0].done()

    def synchronize(self, handle):
        """Waits and returns the result. None if the handle is unknown or was used before."""
        with self._lock:
            waiting = self._waiting.get(handle)
        if waiting is None:
            return None
        ticket, finish = waiting
        try:
            ticket.wait()
        except HorovodInternalError:
            self._forget(handle)
            raise
        self._forget(handle)
        return finish(ticket)

    def _forget(self, handle):
        with self._lock:
            self._waiting.pop(handle, None)


handles = Handles()
