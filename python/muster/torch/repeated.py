"""A reduction that is repeated in every step of a training, and described only once."""

from muster import _library as lib
from muster import engine, world
from muster.torch import asynchronous
from muster.torch import tensors as memory


class Repeated:
    """Repeats allreduce_async_() under one name. Not thread-safe. `alone`: libmuster packs the tensor with no others,
    so it must be one that is_in_place()."""

    def __init__(self, name, process_set, op, prescale_factor=1.0, postscale_factor=1.0, alone=False):
        self._name = name
        self._alone = alone
        self._process_set = process_set
        self._scales = {"op": op, "prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
        self._like = None  # type, shape, device and wire of the tensors that _described fits
        self._described = None

    def begin(self, tensor, wire=lib.WIRE_SAME):
        """Submits `tensor`, which is cast to the type `wire` before it is sent. Returns a function that waits and
        returns the tensor. The function raises HorovodInternalError if the operation failed."""
        if not memory.is_in_place(tensor):
            handle = asynchronous.allreduce_async_(tensor, name=self._name, process_set=self._process_set, wire=wire,
                                                   **self._scales)
            return lambda: asynchronous.synchronize(handle)
        like = tensor.dtype, tensor.shape, tensor.device, wire
        if like != self._like:
            self._describe(tensor, wire)
            self._like = like
        stream = memory.stream_of(tensor)
        ticket = world.submit_to(
            self._process_set, lambda target: self._described.submit(target, tensor.data_ptr(), tensor, stream))

        def wait():
            ticket.wait()
            return tensor

        return wait

    def _describe(self, tensor, wire):
        buffer, _ = memory.in_place(tensor)
        name = world.operation_name("allreduce", self._name, self._process_set)
        self._described = engine.RepeatedReduction(name, buffer, self._scales["op"], self._scales["prescale_factor"],
                                                   self._scales["postscale_factor"], wire, self._alone)
