"""What the frameworks' compressions of tensors on their way share: Compression.none, and casts to a smaller type."""


class Compressor:
    """What a compression has to have; a class of the user's own may be given, too."""

    @staticmethod
    def compress(tensor):
        """(the tensor that is sent, a context for decompress())."""
        raise NotImplementedError("a Compressor needs compress(tensor)")

    @staticmethod
    def decompress(tensor, ctx):
        """What the result of the operation stands for."""
        raise NotImplementedError("a Compressor needs decompress(tensor, ctx)")


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor):
        """(tensor, None)."""
        return tensor, None

    @staticmethod
    def decompress(tensor, ctx):
        """tensor."""
        return tensor


class CastCompressor(Compressor):
    """Sends floating-point tensors as `sent`, a smaller type; others as they are."""

    sent = None

    @staticmethod
    def is_floating(tensor):
        """Whether the tensor's type is of floating point."""
        raise NotImplementedError("a CastCompressor needs is_floating(tensor)")

    @staticmethod
    def cast(tensor, dtype):
        """The tensor as one of `dtype`."""
        raise NotImplementedError("a CastCompressor needs cast(tensor, dtype)")

    @classmethod
    def compress(cls, tensor):
        """(tensor as `sent`, its type)."""
        if not cls.is_floating(tensor):
            return tensor, None
        return cls.cast(tensor, cls.sent), tensor.dtype

    @classmethod
    def decompress(cls, tensor, ctx):
        """The tensor in the type that it had."""
        return tensor if ctx is None else cls.cast(tensor, ctx)
