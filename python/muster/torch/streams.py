"""Creates streams of a GPU that the program does not use.

torch has 32 streams of each priority and returns them in turn, again and again. So a stream of torch could also be a
stream of the program, and the program would wait for Muster's waiting operations. Therefore this module creates streams
with the driver, and wraps them for torch.
"""

import contextlib
import ctypes
import functools
import os
from ctypes import byref, c_char_p, c_int, c_void_p

import torch

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING


@functools.lru_cache(maxsize=None)
def _driver():
    return ctypes.CDLL("libcuda.so.1")


def _call(name, *arguments):
    code = getattr(_driver(), name)(*arguments)
    if code:
        reason = c_char_p()
        _driver().cuGetErrorString(code, byref(reason))
        raise RuntimeError(f"{name}: error {code} of the CUDA driver ({(reason.value or b'unknown').decode()})")


@functools.lru_cache(maxsize=None)
def _context(ordinal):
    """Returns torch's context of a GPU, which is the primary context. The process keeps it for its whole life."""
    device, context = c_int(), c_void_p()
    _call("cuInit", 0)
    _call("cuDeviceGet", byref(device), ordinal)
    _call("cuDevicePrimaryCtxRetain", byref(context), device)
    return context


@contextlib.contextmanager
def _current(ordinal):
    """Makes the GPU's context the current one of this thread."""
    _call("cuCtxPushCurrent_v2", _context(ordinal))
    try:
        yield
    finally:
        _call("cuCtxPopCurrent_v2", byref(c_void_p()))


def new_stream(ordinal):
    """Returns a new cudaStream_t of GPU `ordinal`, for operations that wait.

    Streams of one priority share the GPU's queues, where a waiting operation delays the next one. So the priority of
    this stream is lower than that of libmuster's streams (the greatest), and higher than the program's (torch uses 0 to
    -3). If a GPU has only two priorities, this stream has the program's priority."""
    least, greatest, stream = c_int(), c_int(), c_void_p()
    with _current(ordinal):
        _call("cuCtxGetStreamPriorityRange", byref(least), byref(greatest))
        priority = min(greatest.value + 1, least.value)  # a greater priority is a smaller number
        _call("cuStreamCreateWithPriority", byref(stream), _NON_BLOCKING, priority)
    return stream.value


def destroy_stream(stream, ordinal, owner):
    """Destroys a stream of GPU `ordinal` if this process (not its parent) has created it: `owner` is the creator's pid.
    The GPU still completes the stream's present work. The garbage collector may call this on any thread."""
    if os.getpid() == owner:
        with _current(ordinal):
            _call("cuStreamDestroy_v2", c_void_p(stream))


def as_torchs(stream, device):
    """Returns the torch.cuda.Stream for this cudaStream_t."""
    return torch.cuda.ExternalStream(stream, device=device)
