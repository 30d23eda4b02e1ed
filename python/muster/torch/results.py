"""Memory for the results of operations on a GPU that allocate them (allgather, alltoall, reducescatter).

Room is made when an operation is submitted, for the size that results from equal inputs on all ranks. If the real size
differs, a thread of libmuster asks for memory once the ranks have agreed on it.
"""

import math
import traceback

from muster.torch import tensors as memory


class Results:
    """The results of one operation on `tensors`, which lie on one GPU. `rows_of(tensor)` returns the number of rows if
    all ranks give the same. None if it cannot be known."""

    def __init__(self, tensors, rows_of):
        self._tensors = tensors
        self._rooms = [self._room_for(tensor, rows_of(tensor) if tensor.dim() else None) for tensor in tensors]
        self._asked = {}  # index -> the tensor that allocate() has made
        self.buffers = [memory.reading_on_gpu(tensor, room) for tensor, room in zip(tensors, self._rooms)]

    @staticmethod
    def _room_for(tensor, rows):
        return None if rows is None else memory.new((rows, *tensor.shape[1:]), tensor.dtype, tensor.device)

    def allocate(self, index, size):
        """Returns the address of memory for result `index`. `size` is in bytes and not 0. None if there is no
        memory."""
        try:
            tensor = self._tensors[index]
            rows = size // (math.prod(tensor.shape[1:]) * tensor.element_size())
            self._asked[index] = made = memory.new_idle((rows, *tensor.shape[1:]), tensor.dtype, tensor.device)
            return made.data_ptr()
        except Exception:  # pylint: disable=broad-except  # torch failed; libmuster ends the operation on all ranks
            traceback.print_exc()
            return None

    def take(self, done):
        """Returns the result tensors of a finished ticket."""
        return [self._take(index, done.shape(index)) for index in range(len(self._tensors))]

    def _take(self, index, shape):
        if index in self._asked:
            return memory.take_over(self._asked[index])
        if 0 in shape:
            return memory.new(shape, self._tensors[index].dtype, self._tensors[index].device)
        return self._rooms[index]
