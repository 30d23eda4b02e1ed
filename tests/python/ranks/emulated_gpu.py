"""A GPU that is none, for muster.torch without torch's CUDA: tensors are torch's of the CPU whose elements lie in memory of
tests/programs/fake_cuda (libcuda.so.1 by LD_LIBRARY_PATH), and muster.torch takes them for tensors of a GPU. What torch itself
does on a GPU is for tests/gpu/train.py."""

import ctypes
import math
import os
import threading
import weakref

import pytest
import torch

from muster.torch import streams
from muster.torch import tensors as memory

_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
_NON_BLOCKING = 1


class _Memory:
    """Of the device, given back with the last tensor in it, when the stream has done what it was to do with it."""

    def __init__(self, gpu, size):
        self._gpu = gpu
        self.address = gpu.allocate(size)
        self.source = None  # of the values that are copied there

    def __del__(self):
        self._gpu.wait()
        self._gpu.free(self.address)


class EmulatedGpu:
    """GPU 0, and the stream that is torch's current one."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self._context = ctypes.c_void_p()
        self.stream = None
        self._has_context = threading.local()
        self._call("cuInit", 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), 0)
        self.stream = self.make_stream()

    def _call(self, name, *arguments):
        if self._context and not hasattr(self._has_context, "is_pushed"):
            self._has_context.is_pushed = self.cuda.cuCtxPushCurrent_v2(self._context) == 0
        assert getattr(self.cuda, name)(*arguments) == 0, name

    def make_stream(self):
        stream = ctypes.c_void_p()
        self._call("cuStreamCreate", ctypes.byref(stream), _NON_BLOCKING)
        return stream.value

    def allocate(self, size):
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def free(self, address):
        self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def wait(self):
        """Until the stream has done everything."""
        event = ctypes.c_void_p()
        self._call("cuEventCreate", ctypes.byref(event), 2)
        self._call("cuEventRecord", event, ctypes.c_void_p(self.stream))
        while self.cuda.cuEventQuery(event) != 0:
            os.sched_yield()
        self._call("cuEventDestroy_v2", event)

    def has(self, tensor):
        """Whether its elements lie there, if it has any."""
        if not tensor.numel():
            return True
        ordinal = ctypes.c_int()
        address = ctypes.c_uint64(tensor.data_ptr())
        return self.cuda.cuPointerGetAttribute(ctypes.byref(ordinal), _DEVICE_ORDINAL, address) == 0

    def stream_of(self, tensor):
        """The stream that computes it; None: it is of the host."""
        return self.stream if self.has(tensor) else None

    def copy(self, to, source, stream=None):
        """In the stream, after what it has; neither is to be touched before."""
        self._call("cuMemcpyAsync", ctypes.c_uint64(to.data_ptr()), ctypes.c_uint64(source.data_ptr()),
                   ctypes.c_size_t(source.numel() * source.element_size()), ctypes.c_void_p(stream or self.stream))

    def new(self, shape, dtype, device="cpu"):
        """A tensor there."""
        size = math.prod(shape) * torch.empty((), dtype=dtype).element_size()
        if size == 0:
            return torch.empty(shape, dtype=dtype, device=device)
        owner = _Memory(self, size)
        data = (ctypes.c_byte * size).from_address(owner.address)
        data.owner = owner
        made = torch.frombuffer(data, dtype=dtype).resize_(shape)
        made.memory = owner
        return made

    def copy_of(self, tensor):
        """A tensor there with these values, once the stream has come to it."""
        made = self.new(tensor.shape, tensor.dtype)
        if tensor.numel():
            made.memory.source = tensor.detach().contiguous().clone()
            self.copy(made, made.memory.source)
        return made

    def begin_trace(self):
        """From now on calls of the driver are kept."""
        self.cuda.fake_cuda_trace_begin()

    def note(self, text):
        """A line of the program's own among them."""
        self.cuda.fake_cuda_note(text.encode())

    def trace(self):
        """[(thread, function, stream, event) or (thread, "note", text), …] in the order of the calls."""
        self.cuda.fake_cuda_trace.restype = ctypes.c_char_p
        calls = []
        for line in self.cuda.fake_cuda_trace().decode().splitlines():
            thread, name, rest = line.split(" ", 2)
            calls.append((int(thread), name, *([rest] if name == "note" else map(int, rest.split()))))
        return calls

    def follow(self, stream, other):
        """What `stream` gets next waits for what `other` has."""
        event = ctypes.c_void_p()
        self._call("cuEventCreate", ctypes.byref(event), 2)
        self._call("cuEventRecord", event, ctypes.c_void_p(other))
        self._call("cuStreamWaitEvent", ctypes.c_void_p(stream), event, 0)
        self._call("cuEventDestroy_v2", event)

    def emulate(self, patch):
        """From now on muster.torch takes all tensors for some of this GPU; `patch`: pytest's monkeypatch."""
        patch.setattr(memory, "is_on_gpu", lambda tensor: True)
        patch.setattr(memory, "is_in_place", lambda tensor: tensor.is_contiguous() and self.has(tensor))
        patch.setattr(memory, "copy_of", self.copy_of)
        patch.setattr(memory, "stream_of", self.stream_of)
        patch.setattr(memory, "new", self.new)
        patch.setattr(memory, "new_idle", self.new)
        patch.setattr(memory, "use_in_stream", lambda tensor: tensor)
        patch.setattr(memory, "SideStream", lambda device: _SideStream(self))


class _SideStream:
    def __init__(self, gpu):
        self._gpu = gpu
        self.handle = streams.new_stream(0)
        weakref.finalize(self, streams.destroy_stream, self.handle, 0, os.getpid())

    def follow(self):
        self._gpu.follow(self.handle, self._gpu.stream)


@pytest.fixture(scope="module")
def gpu():
    return EmulatedGpu()


@pytest.fixture
def on_gpu(gpu, monkeypatch):
    """Tensors are of the GPU while the test runs."""
    gpu.emulate(monkeypatch)
