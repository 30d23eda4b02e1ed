"""What the compressions of all frameworks share: Compression.none, and the cast to a smaller type before a tensor is
sent."""


class Compressor:
    """The interface of a compression. Users may pass their own class."""

    @staticmethod
    def compress(tensor):
        """Returns (the tensor to send, a context for decompress())."""
        raise NotImplementedError("a Compressor needs compress(tensor)")

    @staticmethod
    def decompress(tensor, ctx):
        """Converts the result of the operation back."""
        raise NotImplementedError("a Compressor needs decompress(tensor, ctx)")


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor):
        """Returns (tensor, None)."""
        return tensor, None

    @staticmethod
    def decompress(tensor, ctx):
        """Returns `tensor`."""
        return tensor


class CastCompressor(Compressor):
    """Sends floating-point tensors as `sent`, a smaller type. Sends other tensors unchanged."""

    sent = None

    @staticmethod
    def is_floating(tensor):
        """Returns True if the tensor's type is a floating-point type."""
        raise NotImplementedError("a CastCompressor needs is_floating(tensor)")

    @staticmethod
    def cast(tensor, dtype):
        """Returns the tensor converted to `dtype`."""
        raise NotImplementedError("a CastCompressor needs cast(tensor, dtype)")

    @classmethod
    def compress(cls, tensor):
        """Returns (the tensor as `sent`, its former type). For other tensors it returns (tensor, None)."""
        if not cls.is_floating(tensor):
            return tensor, None
        return cls.cast(tensor, cls.sent), tensor.dtype

    @classmethod
    def decompress(cls, tensor, ctx):
        """Returns the tensor in its former type."""
        return tensor if ctx is None else cls.cast(tensor, ctx)
