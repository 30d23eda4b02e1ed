"""Creates streams of a GPU that the program does not share.

torch has 32 streams of each priority and gives them out in turn, again and again. One of them could also be a stream of
the program, which would then wait for our waiting operations. So these streams are made with the driver, and torch is
told about them.
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
    """Returns torch's context of a GPU, the primary one. The context is kept."""
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
    this stream is between libmuster's (the greatest) and the program's (torch's have 0 to -3). If a GPU has only two
    priorities, this stream has the program's."""
    least, greatest, stream = c_int(), c_int(), c_void_p()
    with _current(ordinal):
        _call("cuCtxGetStreamPriorityRange", byref(least), byref(greatest))
        priority = min(greatest.value + 1, least.value)  # a greater priority is a smaller number
        _call("cuStreamCreateWithPriority", byref(stream), _NON_BLOCKING, priority)
    return stream.value


def give_back(stream, ordinal, owner):
    """Destroys a stream of GPU `ordinal`, if this process is its maker `owner`. Its present work is still done. The
    garbage collector may call this on any thread."""
    if os.getpid() == owner:
        with _current(ordinal):
            _call("cuStreamDestroy_v2", c_void_p(stream))


def as_torchs(stream, device):
    """Returns the torch.cuda.Stream for it."""
    return torch.cuda.ExternalStream(stream, device=device)
