"""The result of an operation of the torch.distributed backend."""

import queue
import threading
from datetime import timedelta

import torch
from torch._C._distributed_c10d import Work

from muster.exceptions import HorovodInternalError
from muster.torch import tensors as memory


def _gpus_of(result):
    """Returns the GPUs of tensors in nested lists. A future must know the GPUs of its result."""
    if isinstance(result, (list, tuple)):
        return sorted({gpu for part in result for gpu in _gpus_of(part)}, key=str)
    return [result.device] if result.is_cuda else []


class MusterWork(Work):
    """A running operation. When its requests are done, wait() calls `finish` once. Thread-safe."""

    def __init__(self, requests, result, finish=None, source=-1):
        super().__init__()
        self.requests = requests
        self._result = result
        self._finish = finish
        self._marks = []  # set behind the work of `finish`, in the stream of the thread that called it
        self._source = source
        self._lock = threading.Lock()
        self._future = None
        _kept.keep(self)

    def wait(self, timeout=timedelta(0)):
        """Waits, and returns True. `timeout` of 0 means no limit. HorovodInternalError: the operation failed.
        RuntimeError: it is not done within `timeout`."""
        _kept.release(self)
        seconds = timeout.total_seconds() if timeout else None
        for request in self.requests:
            if not request.wait(seconds):
                raise RuntimeError(f"an operation of backend muster is not done after {seconds:g} s")
        with self._lock:
            finish, self._finish = self._finish, None
            if finish is not None:
                finish()
                self._marks = [memory.Mark(gpu) for gpu in _gpus_of(self._result)]
        for mark in self._marks:
            mark.follow()
        return True

    def synchronize(self):
        """Calls wait()."""
        self.wait()

    def is_completed(self):
        """Returns True if wait() would return at once."""
        return all(request.done() for request in self.requests)

    def is_success(self):
        """Returns True if the operation is done and did not fail."""
        return self.is_completed() and self.exception() is None

    def exception(self):
        """Returns the operation's error. None if the operation is not done, or did not fail."""
        if self.is_completed():
            try:
                self.wait()
            except HorovodInternalError as problem:
                return problem
        return None

    def result(self):
        """Returns the tensors to which the operation writes."""
        return self._result

    def source_rank(self):
        """Returns the sender's rank in the group, for a receive. -1 for other operations."""
        return self._source

    _source_rank = source_rank

    def get_future(self):
        """Returns a torch.futures.Future of result(). Another thread completes it."""
        with self._lock:
            if self._future is None:
                done = torch.futures.Future(devices=_gpus_of(self._result))
                # If this function raises an exception, it becomes the future's error, also for C++ code.
                self._future = done.then(lambda _: self.wait() and self._result)
                _completer_here().complete(self, done)
        _kept.release(self)
        return self._future

    def settle(self):
        """Waits until the operation is done. It raises no exception if the operation failed, but wait() does."""
        for request in self.requests:
            try:
                request.wait()
            except HorovodInternalError:
                return


class _Kept:
    """Keeps works until a caller has waited for them. Torch's C++ code (DistributedDataParallel) keeps only the C++
    half of a work. If the Python half were deleted, that code would wait forever."""

    # Above this number of works, keep() releases the older half of the finished ones.
    LIMIT = 1000

    def __init__(self):
        self._works = {}
        self._lock = threading.Lock()

    def keep(self, work):
        with self._lock:
            self._works[id(work)] = work
            done = []
            if len(self._works) > self.LIMIT:
                done = [key for key, old in self._works.items() if old.is_completed()]
            released = [self._works.pop(key) for key in done[:len(done) // 2]]
        del released  # delete it here, so that destructors run without the lock

    def release(self, work):
        with self._lock:
            self._works.pop(id(work), None)


class _Completer:
    """A thread that completes futures in the order of the operations. The callbacks of futures run in this order, too.

    A callback may start operations and wait for their futures, as PowerSGD does. Another _Completer completes those."""

    def __init__(self):
        self._queue = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread = None

    def complete(self, work, future):
        """Sets the future's result, None, when the work is done."""
        self._queue.put((work, future))
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="muster futures", daemon=True)
                self._thread.start()

    def _run(self):
        _here.completer = _Completer()
        while True:
            work, future = self._queue.get()
            work.settle()
            future.set_result(None)
            del work, future  # otherwise they would live until the next work arrives


_kept = _Kept()
_outermost = _Completer()
_here = threading.local()  # completer: completes the futures that callbacks on this thread request


def _completer_here():
    return getattr(_here, "completer", _outermost)
