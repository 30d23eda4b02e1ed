"""Torch tensors as memory that libmuster reads and writes, and its results as tensors; without a copy where it can be.

Dense tensors of the CPU or of a GPU (CUDA), of the types in TYPES. One that is not contiguous is copied, and copied
back; so is one of a GPU where the operation is one of the host (`on_host`).
"""

import torch

from muster import _library as lib
from muster.engine import Buffer

TYPES = {torch.float16: lib.FLOAT16, torch.bfloat16: lib.BFLOAT16, torch.float32: lib.FLOAT32,
         torch.float64: lib.FLOAT64, torch.int8: lib.INT8, torch.uint8: lib.UINT8, torch.int16: lib.INT16,
         torch.int32: lib.INT32, torch.int64: lib.INT64, torch.bool: lib.BOOL}
_DTYPES = {number: dtype for dtype, number in TYPES.items()}


def _type_of(tensor):
    """The muster_dtype of a tensor that can be used; ValueError says why it cannot."""
    try:
        found = TYPES.get(tensor.dtype)
    except AttributeError:
        raise ValueError(f"a torch.Tensor is needed here, not a {type(tensor).__name__}") from None
    if not (tensor.is_cpu or tensor.is_cuda):
        raise ValueError(f"a tensor on {tensor.device} cannot be used, only tensors on the CPU or a GPU: tensor.cpu()")
    if tensor.layout is not torch.strided:
        raise ValueError("a sparse tensor cannot be used here: sparse_allreduce_async(), or tensor.to_dense()")
    if found is None:
        raise ValueError(f"tensors of {tensor.dtype} are not supported here")
    return found


def stream_of(tensor):
    """The stream that computes a tensor of a GPU, the current one (cudaStream_t); None for one of the CPU."""
    return torch.cuda.current_stream(tensor.device).cuda_stream if tensor.is_cuda else None


def _dense(tensor, on_host=False):
    if on_host and not tensor.is_cpu:
        return tensor.detach().cpu().contiguous()
    return tensor if tensor.is_contiguous() else tensor.contiguous()


def reading(tensor):
    """A Buffer of the host for an operation that makes its result itself."""
    kind = _type_of(tensor)
    source = _dense(tensor, on_host=True)
    return Buffer(source.data_ptr(), 0, kind, source.shape, source)


def into_new(tensor, on_host=False):
    """(a Buffer whose result is a new tensor, that tensor)."""
    kind = _type_of(tensor)
    source = _dense(tensor, on_host)
    out = torch.empty(source.shape, dtype=source.dtype, device=source.device)
    return Buffer(source.data_ptr(), out.data_ptr(), kind, source.shape, (source, out), stream_of(source)), out


def in_place(tensor, on_host=False):
    """(a Buffer whose result is `tensor` itself, None or the copy that copy_back() gets the result from)."""
    kind = _type_of(tensor)
    if tensor.is_contiguous() and not (on_host and not tensor.is_cpu):
        address = tensor.data_ptr()
        return Buffer(address, address, kind, tensor.shape, tensor, stream_of(tensor)), None
    with torch.no_grad():
        copy = _dense(tensor, on_host)
    return Buffer(copy.data_ptr(), copy.data_ptr(), kind, copy.shape, copy, stream_of(copy)), copy


def copy_back(tensor, copy):
    """What remains of an operation in place; returns `tensor`."""
    if copy is not None:
        with torch.no_grad():
            tensor.copy_(copy)
    return tensor


def made(output):
    """An engine.Output as a tensor; the memory is libmuster's, and lives as long as the tensor."""
    dtype = _DTYPES[output.dtype]
    if 0 in output.shape:
        return torch.empty(output.shape, dtype=dtype)
    # Not by a view: autograd forbids to change in place what is a view made in a forward function.
    return torch.frombuffer(output.data, dtype=dtype).resize_(output.shape)
