"""The result of an operation of the torch.distributed backend."""

import queue
import threading
from datetime import timedelta

import torch
from torch._C._distributed_c10d import Work

from muster.exceptions import HorovodInternalError
from muster.torch import tensors as memory


def _gpus_of(result):
    """Returns the devices of tensors in nested lists. A future must know those of its result."""
    if isinstance(result, (list, tuple)):
        return sorted({gpu for part in result for gpu in _gpus_of(part)}, key=str)
    return [result.device] if result.is_cuda else []


class MusterWork(Work):
    """A running operation: its requests, and the function `finish` to call once when they are done. Thread-safe."""

    def __init__(self, requests, result, finish=None, source=-1):
        super().__init__()
        self.requests = requests
        self._result = result
        self._finish = finish
        self._marks = []  # places in the stream of the thread that called `finish`, behind its work
        self._source = source
        self._lock = threading.Lock()
        self._future = None
        _kept.keep(self)

    def wait(self, timeout=timedelta(0)):
        """Waits, and returns True. HorovodInternalError: it failed. RuntimeError: it is not done within `timeout`; 0
        means no limit."""
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
        """Returns True if it is done and did not fail."""
        return self.is_completed() and self.exception() is None

    def exception(self):
        """Returns its error. None if it is not done, or did not fail."""
        if self.is_completed():
            try:
                self.wait()
            except HorovodInternalError as problem:
                return problem
        return None

    def result(self):
        """Returns the tensors to which it writes."""
        return self._result

    def source_rank(self):
        """Returns the rank in the group that sent, for a receive."""
        return self._source

    _source_rank = source_rank

    def get_future(self):
        """Returns a torch.futures.Future of result(). Another thread completes it."""
        with self._lock:
            if self._future is None:
                done = torch.futures.Future(devices=_gpus_of(self._result))
                # An exception of this function becomes the future's error, even for C++.
                self._future = done.then(lambda _: self.wait() and self._result)
                _completer_here().complete(self, done)
        _kept.release(self)
        return self._future

    def settle(self):
        """Waits for the end without an exception. wait() reports a failure."""
        for request in self.requests:
            try:
                request.wait()
            except HorovodInternalError:
                return


class _Kept:
    """Keeps works that torch will still wait for. Torch's C++ (DistributedDataParallel) holds only the C++ half of a
    work. If the Python half were gone, it would wait for ever. It waits once for each work."""

    # Above this number, finished works that no caller has waited for are released.
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
            let_go = [self._works.pop(key) for key in done[:len(done) // 2]]
        del let_go  # their destructors run without the lock

    def release(self, work):
        with self._lock:
            self._works.pop(id(work), None)


class _Completer:
    """A thread that completes futures in the order of the operations. Callbacks of the futures run in this order, too.

    A callback may start operations and wait for their futures, as PowerSGD does. Another thread completes those."""

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
            del work, future  # otherwise they would stay until the next one comes


_kept = _Kept()
_outermost = _Completer()
_here = threading.local()  # completer: completes futures that this thread requests while it completes others


def _completer_here():
    return getattr(_here, "completer", _outermost)
