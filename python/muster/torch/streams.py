"""Streams of a GPU that are nobody else's.

Torch has 32 streams of each priority, which it gives out in turn, again and again: one of those may be a stream of the
program's as well, which then waits for what waits in it. These are made with the driver, and torch is told of them.
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
    """Torch's context of a GPU, the primary one; it is kept."""
    device, context = c_int(), c_void_p()
    _call("cuInit", 0)
    _call("cuDeviceGet", byref(device), ordinal)
    _call("cuDevicePrimaryCtxRetain", byref(context), device)
    return context


@contextlib.contextmanager
def _current(ordinal):
    """Its context is this thread's."""
    _call("cuCtxPushCurrent_v2", _context(ordinal))
    try:
        yield
    finally:
        _call("cuCtxPopCurrent_v2", byref(c_void_p()))


def new_stream(ordinal):
    """A new cudaStream_t of GPU `ordinal` for operations that wait.

    Streams of one priority share the GPU's queues, in which one that waits holds up the next. So this one is between
    those of libmuster, which have the greatest, and those of the program (torch's have 0 to -3). Where a GPU has two
    priorities, it has the program's."""
    least, greatest, stream = c_int(), c_int(), c_void_p()
    with _current(ordinal):
        _call("cuCtxGetStreamPriorityRange", byref(least), byref(greatest))
        priority = min(greatest.value + 1, least.value)  # a greater priority is a smaller number
        _call("cuStreamCreateWithPriority", byref(stream), _NON_BLOCKING, priority)
    return stream.value


def give_back(stream, ordinal, owner):
    """Destroys one of GPU `ordinal`, if this is the process `owner`, which has made it; what it has is still done. On
    any thread, as garbage is collected."""
    if os.getpid() == owner:
        with _current(ordinal):
            _call("cuStreamDestroy_v2", c_void_p(stream))


def as_torchs(stream, device):
    """The torch.cuda.Stream of it."""
    return torch.cuda.ExternalStream(stream, device=device)
