"""Compresses tensors before they are sent: Compression.none, .fp16, .bf16, or the user's own class like Compressor.

For allreduces of float32 on a GPU, the kernels that pack and unpack the data cast it. No separate cast is needed.
"""

import torch

from muster import _library as lib
from muster.compression import CastCompressor, Compressor, NoneCompressor
from muster.engine import Adasum


class _CastCompressor(CastCompressor):
    @staticmethod
    def is_floating(tensor):
        return tensor.dtype.is_floating_point

    @staticmethod
    def cast(tensor, dtype):
        return tensor.to(dtype)


class FP16Compressor(_CastCompressor):
    """Sends floating-point tensors as float16: 11 bits of precision, up to 65,504."""

    sent = torch.float16


class BF16Compressor(_CastCompressor):
    """Sends floating-point tensors as bfloat16: 8 bits of precision, the range of float32."""

    sent = torch.bfloat16


_WIRES = {FP16Compressor: lib.WIRE_FLOAT16, BF16Compressor: lib.WIRE_BFLOAT16}


def wire_of(compression, tensors, op):
    """Returns the muster_wire with which libmuster itself casts these tensors while it packs them. It can do so only
    with float32 tensors of a GPU. WIRE_SAME means that compression.compress() must cast them."""
    wire = _WIRES.get(compression, lib.WIRE_SAME)
    is_cast = op != Adasum and all(tensor.is_cuda and tensor.dtype == torch.float32 for tensor in tensors)
    return wire if is_cast else lib.WIRE_SAME


def compress(compression, tensors, op):
    """Returns ([(the tensor to send, a context for decompress()), …], the muster_wire)."""
    wire = wire_of(compression, tensors, op)
    if wire != lib.WIRE_SAME:
        return [(tensor, None) for tensor in tensors], wire
    return [compression.compress(tensor) for tensor in tensors], wire


class Compression:
    """The values of `compression=`."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
