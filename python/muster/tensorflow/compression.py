"""Compresses tensors before they are sent: Compression.none, .fp16, .bf16, or the user's own class like Compressor."""

import tensorflow as tf

from muster.compression import CastCompressor, Compressor, NoneCompressor


class _CastCompressor(CastCompressor):
    @staticmethod
    def is_floating(tensor):
        return tensor.dtype.is_floating

    @staticmethod
    def cast(tensor, dtype):
        return tf.cast(tensor, dtype)


class FP16Compressor(_CastCompressor):
    """Sends floating-point tensors as float16: 11 bits of precision, up to 65,504."""

    sent = tf.float16


class BF16Compressor(_CastCompressor):
    """Sends floating-point tensors as bfloat16: 8 bits of precision, the range of float32."""

    sent = tf.bfloat16


class Compression:
    """The values of `compression=`."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
