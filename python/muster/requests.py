"""Operations of a communicator that go on while the caller does (muster_request). Thread-safe.

Between ranks they are matched by the order of the calls, which is the same on all ranks of the communicator.
"""

import threading
import time
from ctypes import byref, c_int, c_size_t, c_void_p

from muster import _library as lib
from muster import engine
from muster.exceptions import HorovodInternalError

# A wait comes back so often to let Python handle signals.
_SLICE_SECONDS = 0.1


def _is_done(handle, test=lib.muster_test):
    done = c_int()
    test(handle, byref(done))
    return bool(done.value)


class Request:
    """An operation that runs. Keeps its memory until it is done.

    It is there before the operation is, as an engine.Ticket."""

    def __init__(self, keep):
        self._handle = c_void_p()  # of a muster_request; NULL: nothing was started
        self._keep = keep
        self._lock = threading.Lock()
        self._failure = None
        self._has_ended = False

    def start(self, function, arguments):
        """As start()."""
        error = c_void_p()
        code = function(*arguments, byref(self._handle), byref(error))
        if code == lib.OK:
            return self
        message, rank, host = lib.take_error(error)
        if code == lib.INVALID:
            raise ValueError(message)
        raise HorovodInternalError(message, rank=rank, host=host)

    def __del__(self, is_done=_is_done, free=lib.muster_request_free, abandoned=engine.abandoned,
                forked=engine.forked):
        if not self._handle or forked:
            return
        if not self._has_ended and not is_done(self._handle):
            abandoned.add(self._handle, self._keep, is_done, free)
        else:
            free(self._handle)

    def done(self):
        """Whether it is done, successfully or not."""
        return self._has_ended or _is_done(self._handle)

    def wait(self, seconds=None):
        """False: it is not done within `seconds`. HorovodInternalError: it failed. Signals are handled meanwhile.
        ValueError: it was not waited for in the process that this one was forked from."""
        if engine.forked and not self._has_ended:
            raise ValueError("a process that was forked from a rank cannot wait for the rank's operations")
        end = None if seconds is None else time.monotonic() + seconds
        with self._lock:
            while not self._has_ended:
                left = _SLICE_SECONDS if end is None else min(_SLICE_SECONDS, end - time.monotonic())
                if left < 0:
                    return False
                self._wait_for(left)
        if self._failure is not None:
            message, rank, host = self._failure
            raise HorovodInternalError(message, rank=rank, host=host)
        return True

    def _wait_for(self, seconds):
        error = c_void_p()
        code = lib.muster_wait(self._handle, seconds, byref(error))
        if code == lib.TIMEOUT and not error:
            return
        if code != lib.OK:
            self._failure = lib.take_error(error)
        self._has_ended = True
        self._keep = None


def start(function, *arguments, keep):
    """The Request of `function` (one of muster_i...); `keep` owns the memory that it uses. ValueError: an argument that
    cannot be; HorovodInternalError: the communicator has ended."""
    return Request(keep).start(function, arguments)


def counts(numbers):
    """Counts of elements for each rank, as an operation takes them."""
    return (c_size_t * len(numbers))(*numbers)
