"""Loads libmuster.so by ctypes: the functions of muster/muster.h and muster/engine.h that Python uses.

The headers define thread safety and ownership. Functions that may wait release the GIL.
"""

import ctypes
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p

# muster_code
OK = 0
INVALID = 3
TIMEOUT = 4
MISMATCH = 9

# muster_dtype
FLOAT16, BFLOAT16, FLOAT32, FLOAT64, INT8, UINT8, INT16, INT32, INT64, BOOL = range(10)
# muster_op
OP_SUM, OP_AVG, OP_MIN, OP_MAX, OP_PROD = range(5)
# muster_kind
ALLREDUCE, ALLGATHER, BROADCAST, REDUCESCATTER, ALLTOALL, BARRIER, JOIN, ADASUM, BUFFER = range(9)
# muster_wire
WIRE_SAME, WIRE_FLOAT16, WIRE_BFLOAT16 = range(3)


# The functions of a muster_meeting.
PUBLISH = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)
FIND = ctypes.CFUNCTYPE(ctypes.c_long, c_void_p, c_void_p, c_size_t)
IS_OVER = ctypes.CFUNCTYPE(c_int, c_void_p)


class Meeting(ctypes.Structure):
    _fields_ = [("rank", c_int), ("size", c_int), ("context", c_void_p), ("publish", PUBLISH), ("find", FIND),
                ("is_over", IS_OVER)]


class Options(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("timeout_seconds", c_double), ("join_seconds", c_double),
                ("meeting", POINTER(Meeting))]


class Tensor(ctypes.Structure):
    _fields_ = [("in_", c_void_p), ("out", c_void_p), ("shape", POINTER(c_int64)), ("dimensions", c_int),
                ("type", c_int)]


# The type of a function that allocates `bytes` for result `index`: allocate(context, index, bytes).
ALLOCATE = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_int, c_size_t)


class Submission(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("kind", c_int), ("op", c_int), ("root", c_int),
                ("count", c_int), ("tensors", POINTER(Tensor)), ("prescale", c_double), ("postscale", c_double),
                ("splits", POINTER(c_int64)), ("on_gpu", c_int), ("stream", c_void_p), ("wire", c_int),
                ("allocate", ALLOCATE), ("context", c_void_p), ("alone", c_int)]


class Output(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("shape", POINTER(c_int64)), ("dimensions", c_int), ("type", c_int)]


_HANDLE = POINTER(c_void_p)
_FUNCTIONS = {
    "muster_version": (c_char_p, []),
    "muster_device_count": (c_int, []),
    "muster_device_kernels": (c_char_p, []),
    "muster_error_message": (c_char_p, [c_void_p]),
    "muster_error_rank": (c_int, [c_void_p]),
    "muster_error_host": (c_char_p, [c_void_p]),
    "muster_error_free": (None, [c_void_p]),
    "muster_init": (c_int, [POINTER(Options), _HANDLE, _HANDLE]),
    "muster_finalize": (None, [c_void_p]),
    "muster_world_comm": (c_void_p, [c_void_p]),
    "muster_world_rank_failed": (None, [c_void_p, c_int, c_char_p]),
    "muster_comm_rank": (c_int, [c_void_p]),
    "muster_comm_size": (c_int, [c_void_p]),
    "muster_comm_local_rank": (c_int, [c_void_p]),
    "muster_comm_local_size": (c_int, [c_void_p]),
    "muster_comm_group": (c_int, [c_void_p, POINTER(c_int), c_int, _HANDLE, _HANDLE]),
    "muster_comm_free": (None, [c_void_p]),
    "muster_engine_start": (c_int, [c_void_p, c_int, _HANDLE, _HANDLE]),
    "muster_engine_shut_down": (None, [c_void_p, c_double]),
    "muster_engine_free": (None, [c_void_p]),
    "muster_engine_timeline": (c_int, [c_void_p, c_char_p, c_int, _HANDLE]),
    "muster_ticket_wait": (c_int, [c_void_p, c_double, _HANDLE]),
    "muster_ticket_output": (c_int, [c_void_p, c_int, POINTER(Output)]),
    "muster_ticket_received_splits": (POINTER(c_int64), [c_void_p]),
    "muster_ticket_last_joined": (c_int, [c_void_p]),
    # Operations of a communicator that run while the caller continues.
    "muster_ibarrier": (c_int, [c_void_p, _HANDLE, _HANDLE]),
    "muster_iallreduce": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, _HANDLE, _HANDLE]),
    "muster_ireduce": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, _HANDLE, _HANDLE]),
    "muster_ireduce_scatterv": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(c_size_t), c_int, c_int, _HANDLE,
                                        _HANDLE]),
    "muster_ibroadcast": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, _HANDLE, _HANDLE]),
    "muster_iallgatherv": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(c_size_t), c_int, _HANDLE, _HANDLE]),
    "muster_igather": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, _HANDLE, _HANDLE]),
    "muster_iscatter": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, _HANDLE, _HANDLE]),
    "muster_ialltoallv": (c_int, [c_void_p, c_void_p, POINTER(c_size_t), c_void_p, POINTER(c_size_t), c_int, _HANDLE,
                                  _HANDLE]),
    "muster_isend": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, _HANDLE, _HANDLE]),
    "muster_irecv": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, _HANDLE, _HANDLE]),
    "muster_wait": (c_int, [c_void_p, c_double, _HANDLE]),
    # Operations on memory of a GPU, in the order of a stream.
    "muster_device_attach": (c_int, [c_void_p, c_int, _HANDLE]),
    "muster_device_path": (c_char_p, [c_void_p]),
    "muster_device_path_reason": (c_char_p, [c_void_p]),
    "muster_allreduce_on_stream": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, c_double, c_double,
                                           c_void_p, _HANDLE, _HANDLE]),
    "muster_broadcast_on_stream": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, _HANDLE, _HANDLE]),
    "muster_allgather_on_stream": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_void_p, _HANDLE, _HANDLE]),
    "muster_reduce_scatter_on_stream": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p,
                                                _HANDLE, _HANDLE]),
    "muster_alltoallv_on_stream": (c_int, [c_void_p, c_void_p, POINTER(c_size_t), c_void_p, POINTER(c_size_t), c_int,
                                           c_void_p, _HANDLE, _HANDLE]),
}
_SUBMIT = (c_int, [c_void_p, POINTER(Submission), _HANDLE, _HANDLE])
# These functions keep the GIL: they are short, never wait, and nothing in them needs the GIL.
_SHORT_FUNCTIONS = {
    "muster_test": (c_int, [c_void_p, POINTER(c_int)]),
    "muster_request_free": (None, [c_void_p]),
    "muster_heartbeat": (None, [c_int64]),
    "muster_engine_submit": _SUBMIT,
    "muster_ticket_is_done": (c_int, [c_void_p]),
    "muster_ticket_free": (None, [c_void_p]),
}


def _candidates():
    """Returns the places where the library may be: only MUSTER_LIBRARY if it is set. Otherwise a wheel of this package
    alone, a build tree beside it, an installed prefix or a wheel with all programs (also by `pip --target`), and the
    system's search path."""
    named = os.environ.get("MUSTER_LIBRARY")
    if named:
        return [named]
    here = os.path.dirname(os.path.abspath(__file__))
    # Don't resolve links: in a build tree this package is a link.
    root = os.path.dirname(os.path.dirname(here))
    prefix = os.path.dirname(os.path.dirname(root))
    in_wheel = os.path.join("libexec", "muster", "libmuster.so.0")
    return [os.path.join(here, "libmuster.so"),
            os.path.join(root, "lib", "libmuster.so"),
            os.path.join(root, "build", "release", "lib", "libmuster.so"),
            os.path.join(prefix, "lib", "libmuster.so.0"),
            os.path.join(prefix, in_wheel),
            os.path.join(os.path.dirname(here), in_wheel),
            "libmuster.so.0"]


def _load():
    tried = []
    for path in _candidates():
        if os.path.isabs(path) and not os.path.exists(path):
            tried.append(f"{os.path.normpath(path)}: no such file")
            continue
        try:
            library, short = ctypes.CDLL(path), ctypes.PyDLL(path)
            for loaded, functions in ((library, _FUNCTIONS), (short, _SHORT_FUNCTIONS)):
                for name, (result, arguments) in functions.items():
                    function = getattr(loaded, name)
                    function.restype, function.argtypes = result, arguments
            return library, short
        except (OSError, AttributeError) as problem:
            tried.append(f"{path}: {problem}")
    raise ImportError("libmuster.so was not found: set MUSTER_LIBRARY to its path. " + "; ".join(tried))


_library, _short = _load()
for _name in _FUNCTIONS:
    globals()[_name] = getattr(_library, _name)
for _name in _SHORT_FUNCTIONS:
    globals()[_name] = getattr(_short, _name)
# The variant for tensors on a GPU. It releases the GIL, because it calls the driver, and the driver may wait.
muster_engine_submit_on_gpu = _library.muster_engine_submit
muster_engine_submit_on_gpu.restype, muster_engine_submit_on_gpu.argtypes = _SUBMIT


def version():
    """Returns libmuster's version, such as '0.1.0'."""
    return _library.muster_version().decode()


def bytes_at(address, size):
    """Returns a copy of memory as bytes."""
    return ctypes.string_at(address, size)


def copy_to(address, data):
    """Copies bytes to memory that has room for them."""
    ctypes.memmove(address, data, len(data))


def take_error(error):
    """Returns (message, rank or None, host) of a muster_error, and frees it."""
    if not error:
        return "libmuster reported an error without a message", None, ""
    rank = _library.muster_error_rank(error)
    taken = (_library.muster_error_message(error).decode(errors="replace"), None if rank < 0 else rank,
             _library.muster_error_host(error).decode(errors="replace"))
    _library.muster_error_free(error)
    return taken
