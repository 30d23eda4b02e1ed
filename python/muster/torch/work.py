"""What an operation of the torch.distributed backend returns."""

import queue
import threading
from datetime import timedelta

import torch
from torch._C._distributed_c10d import Work

from muster.exceptions import HorovodInternalError
from muster.torch import tensors as memory


def _gpus_of(result):
    """Where the tensors of lists in lists lie; a future has to know that of its result."""
    if isinstance(result, (list, tuple)):
        return sorted({gpu for part in result for gpu in _gpus_of(part)}, key=str)
    return [result.device] if result.is_cuda else []


class MusterWork(Work):
    """An operation that runs: its requests, and what is to be done when they are (`finish`, once). Thread-safe."""

    def __init__(self, requests, result, finish=None, source=-1):
        super().__init__()
        self.requests = requests
        self._result = result
        self._finish = finish
        self._marks = []  # behind what `finish` has put into the stream of the thread that called it
        self._source = source
        self._lock = threading.Lock()
        self._future = None
        _kept.keep(self)

    def wait(self, timeout=timedelta(0)):
        """True when it is done. HorovodInternalError: it failed; RuntimeError: it is not done within `timeout`, 0 for
        ever."""
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
        """wait()."""
        self.wait()

    def is_completed(self):
        """Whether wait() would return at once."""
        return all(request.done() for request in self.requests)

    def is_success(self):
        """Whether it is done, and did not fail."""
        return self.is_completed() and self.exception() is None

    def exception(self):
        """Its error; None: it is not done, or did not fail."""
        if self.is_completed():
            try:
                self.wait()
            except HorovodInternalError as problem:
                return problem
        return None

    def result(self):
        """The tensors that it writes to."""
        return self._result

    def source_rank(self):
        """Of a receive: the rank in the group that sent."""
        return self._source

    _source_rank = source_rank

    def get_future(self):
        """A torch.futures.Future of result(), which another thread completes."""
        with self._lock:
            if self._future is None:
                done = torch.futures.Future(devices=_gpus_of(self._result))
                # What this function raises is the future's error, also for C++.
                self._future = done.then(lambda _: self.wait() and self._result)
                _completer_here().complete(self, done)
        _kept.release(self)
        return self._future

    def settle(self):
        """Waits; whether it failed is for wait() to say."""
        for request in self.requests:
            try:
                request.wait()
            except HorovodInternalError:
                return


class _Kept:
    """Works that somebody has yet to ask for. Torch's C++ (DistributedDataParallel) holds only the C++ half of a work:
    were the Python half gone when it waits, it would wait for ever. It asks each work once."""

    # Works that nobody asks for are let go of when they are done and there are more than so many.
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
        del let_go  # without the lock

    def release(self, work):
        with self._lock:
            self._works.pop(id(work), None)


class _Completer:
    """A thread that completes futures in the order of the operations, which is that of what is attached to them, too.

    That may start operations itself and wait for their futures, as PowerSGD does: another thread completes these."""

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
            del work, future  # not until the next one comes


_kept = _Kept()
_outermost = _Completer()
_here = threading.local()  # completer: for futures that this thread, which completes others, asks for


def _completer_here():
    return getattr(_here, "completer", _outermost)
