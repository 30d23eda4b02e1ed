"""Passes torch tensors to libmuster as memory, and returns libmuster's results as tensors, without a copy if possible.

Dense tensors of the types in TYPES are supported. These tensors are copied, and the results are copied back:
- tensors that are not contiguous;
- tensors of a GPU (CUDA), if the operation runs on the host (`on_host`);
- tensors of any other device (`xpu`). This code needs no knowledge of the device: torch copies these tensors to the
host and back, and waits until a copy is done.
"""

import functools
import os
import weakref

import torch

from muster import _library as lib
from muster.engine import Buffer
from muster.torch import streams

TYPES = {torch.float16: lib.FLOAT16, torch.bfloat16: lib.BFLOAT16, torch.float32: lib.FLOAT32,
         torch.float64: lib.FLOAT64, torch.int8: lib.INT8, torch.uint8: lib.UINT8, torch.int16: lib.INT16,
         torch.int32: lib.INT32, torch.int64: lib.INT64, torch.bool: lib.BOOL}
_DTYPES = {number: dtype for dtype, number in TYPES.items()}


def _type_of(tensor):
    """Returns the muster_dtype of a tensor. ValueError: the tensor cannot be used; the message says why."""
    try:
        found = TYPES.get(tensor.dtype)
    except AttributeError:
        raise ValueError(f"a torch.Tensor is needed here, not a {type(tensor).__name__}") from None
    if tensor.is_meta:
        raise ValueError("a tensor on meta cannot be used: it has no elements")
    if tensor.layout is not torch.strided:
        raise ValueError("a sparse tensor cannot be used here: use sparse_allreduce_async(), or tensor.to_dense()")
    if found is None:
        raise ValueError(f"tensors of {tensor.dtype} are not supported here")
    return found


def is_on_gpu(tensor):
    """Returns True for a tensor of a GPU (CUDA)."""
    return tensor.is_cuda


def is_out_of_reach(tensor):
    """Returns True for a tensor of a device whose memory libmuster cannot read: neither the CPU nor a CUDA GPU."""
    return not (tensor.is_cpu or tensor.is_cuda)


def is_in_place(tensor):
    """Returns True if the tensor's elements can be read and written where they are."""
    return tensor.is_contiguous() and not is_out_of_reach(tensor)


def copy_of(tensor):
    """Returns a copy whose elements can be read and written where they are."""
    return tensor.contiguous()


def stream_of(tensor):
    """Returns the current stream of the tensor's GPU, which computes the tensor (cudaStream_t). None for a tensor of
    the CPU."""
    return torch.cuda.current_stream(tensor.device).cuda_stream if is_on_gpu(tensor) else None


def new(shape, dtype, device):
    """Returns an uninitialized tensor for the current stream."""
    return torch.empty(shape, dtype=dtype, device=device)


@functools.lru_cache(maxsize=None)
def _result_stream(device):
    return streams.as_torchs(streams.new_stream(device.index), device)


def new_idle(shape, dtype, device):
    """Does new() on a GPU. No stream has work with the returned memory, so any stream may write to it at once. Any
    thread may call this."""
    stream = _result_stream(device)
    with torch.cuda.stream(stream):
        made = new(shape, dtype, device)
    # Wait: with cudaMallocAsync other streams cannot use the memory before the current stream has allocated it.
    stream.synchronize()
    return made


def use_in_stream(tensor):
    """Records for torch's allocator that the current stream uses the tensor. Returns `tensor`."""
    tensor.record_stream(torch.cuda.current_stream(tensor.device))
    return tensor


class Mark:
    """Marks a place in the current stream of a GPU."""

    def __init__(self, device):
        self._device = device
        self._event = torch.cuda.Event()
        self._event.record(torch.cuda.current_stream(device))

    def follow(self):
        """Makes later work of the current stream wait for the work before the mark."""
        torch.cuda.current_stream(self._device).wait_event(self._event)


class SideStream:
    """A stream of a GPU for operations that wait. The program's own streams do not use it."""

    def __init__(self, device):
        self.handle = streams.new_stream(device.index)
        self._stream = streams.as_torchs(self.handle, device)
        end = weakref.finalize(self, streams.destroy_stream, self.handle, device.index, os.getpid())
        end.atexit = False  # when Python exits, the driver may already have ended

    def follow(self):
        """Makes later work of this stream wait for the present work of the current stream."""
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))


@functools.lru_cache(maxsize=None)
def _has_driver():
    return lib.muster_device_count() > 0


def stay_on_gpu(tensors):
    """Returns True if an operation on these tensors can run on the GPU: all tensors lie on one GPU, and libmuster can
    use the CUDA driver."""
    for tensor in tensors:
        _type_of(tensor)
    return (all(is_on_gpu(tensor) for tensor in tensors) and len({tensor.device for tensor in tensors}) == 1 and
            _has_driver())


def _dense(tensor, on_host=False):
    if is_out_of_reach(tensor) or (on_host and is_on_gpu(tensor)):
        return tensor.detach().cpu().contiguous()
    return tensor if is_in_place(tensor) else copy_of(tensor)


def reading(tensor):
    """Returns a Buffer of the host, for an operation that allocates its result itself."""
    kind = _type_of(tensor)
    source = _dense(tensor, on_host=True)
    return Buffer(source.data_ptr(), 0, kind, source.shape, source)


def reading_on_gpu(tensor, room=None):
    """Returns a Buffer of the GPU, for an operation that allocates its result itself. The operation uses `room` if the
    result fits."""
    kind = _type_of(tensor)
    source = _dense(tensor)
    # If the tensor is empty, use the address of another one: libmuster finds the GPU by the address.
    there = source if source.numel() else new((1,), source.dtype, source.device)
    return Buffer(there.data_ptr(), 0 if room is None else room.data_ptr(), kind, source.shape, (there, room),
                  stream_of(source))


def into_new(tensor, on_host=False):
    """Returns (a Buffer whose result is a new tensor, that tensor)."""
    kind = _type_of(tensor)
    source = _dense(tensor, on_host)
    out = new(source.shape, source.dtype, source.device)
    return Buffer(source.data_ptr(), out.data_ptr(), kind, source.shape, (source, out), stream_of(source)), out


def in_place(tensor, on_host=False):
    """Returns (a Buffer for an operation in place, a copy of `tensor` or None). If it returns a copy, the operation
    writes to the copy, and copy_back() copies the result to `tensor`."""
    kind = _type_of(tensor)
    if is_in_place(tensor) and not (on_host and is_on_gpu(tensor)):
        address = tensor.data_ptr()
        return Buffer(address, address, kind, tensor.shape, tensor, stream_of(tensor)), None
    with torch.no_grad():
        copy = _dense(tensor, on_host)
    return Buffer(copy.data_ptr(), copy.data_ptr(), kind, copy.shape, copy, stream_of(copy)), copy


def copy_back(tensor, copy):
    """Finishes an operation in place: copies the result back if there is a copy. Returns `tensor`."""
    if copy is not None:
        copy_out(tensor, copy)
    return tensor


def copy_out(tensor, copy):
    """Copies to `tensor` in the current stream. `copy` may belong to another stream; the caller may release it
    afterwards."""
    with torch.no_grad():
        tensor.copy_(copy)
    if is_on_gpu(copy):
        use_in_stream(copy)


def moved(result, tensor):
    """Returns `result` on the device of `tensor`, which is the input of the operation."""
    if not is_out_of_reach(tensor):
        return result.to(tensor.device)
    return tensor.detach().new_empty(result.shape).copy_(result)


def made(output):
    """Returns an engine.Output as a tensor. The memory is libmuster's. It lives as long as the tensor."""
    dtype = _DTYPES[output.dtype]
    if 0 in output.shape:
        return torch.empty(output.shape, dtype=dtype)
    # Don't return a view: if a forward function returns a view, autograd forbids changing it in place.
    return torch.frombuffer(output.data, dtype=dtype).resize_(output.shape)
