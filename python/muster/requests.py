"""Operations of a communicator that run while the caller continues (muster_request). Thread-safe.

Ranks match these operations by the order of the calls, which must be the same on all ranks of the communicator.
"""

import threading
import time
from ctypes import byref, c_int, c_size_t, c_void_p

from muster import _library as lib
from muster import engine
from muster.exceptions import HorovodInternalError

# A wait returns to Python at this interval, so that Python can handle signals.
_SLICE_SECONDS = 0.1


def _is_done(handle, test=lib.muster_test):
    done = c_int()
    test(handle, byref(done))
    return bool(done.value)


class Request:
    """A running operation. It keeps the operation's memory until the operation is done.

    The request exists before the operation. So an exception cannot leave an operation without a request (engine.Ticket
    works in the same way)."""

    def __init__(self, keep):
        self._handle = c_void_p()  # a muster_request; NULL if nothing was started
        self._keep = keep
        self._lock = threading.Lock()
        self._failure = None
        self._has_ended = False

    def start(self, function, arguments):
        """Does the work of start()."""
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
        """Returns True if the operation has succeeded or failed."""
        return self._has_ended or _is_done(self._handle)

    def wait(self, seconds=None):
        """Waits, and returns True when the operation is done. Returns False if it is not done within `seconds`. While
        it waits, Python handles signals.
        HorovodInternalError: the operation failed. ValueError: this is a forked process, and its parent has not waited
        before the fork."""
        if engine.forked and not self._has_ended:
            raise ValueError("a forked process cannot wait for operations of its parent: wait before the fork")
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
    """Starts `function` (one of muster_i...) and returns its Request. `keep` owns the memory that the operation uses.
    ValueError: an argument is wrong. HorovodInternalError: the communicator has ended."""
    return Request(keep).start(function, arguments)


def counts(numbers):
    """Returns the numbers of elements for each rank, as the array that libmuster's functions need."""
    return (c_size_t * len(numbers))(*numbers)
