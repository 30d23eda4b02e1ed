"""Where results go that an operation on a GPU makes itself (allgather, alltoall, reducescatter).

Room for them is made as they are submitted, for the size that they have where all ranks give what this one gives. Where
they have another, a thread of libmuster's asks for memory once the ranks have agreed on it.
"""

import math
import traceback

from muster.torch import tensors as memory


class Results:
    """Those of one operation on `tensors`, which lie on one GPU. `rows_of(tensor)`: how many rows there are where all
    ranks give the same; None: there is no telling."""

    def __init__(self, tensors, rows_of):
        self._tensors = tensors
        self._rooms = [self._room_for(tensor, rows_of(tensor) if tensor.dim() else None) for tensor in tensors]
        self._asked = {}  # index -> what allocate() has made
        self.buffers = [memory.reading_on_gpu(tensor, room) for tensor, room in zip(tensors, self._rooms)]

    @staticmethod
    def _room_for(tensor, rows):
        return None if rows is None else memory.new((rows, *tensor.shape[1:]), tensor.dtype, tensor.device)

    def allocate(self, index, size):
        """The address of memory for result `index` of `size` bytes, which is not 0; None: there is none."""
        try:
            tensor = self._tensors[index]
            rows = size // (math.prod(tensor.shape[1:]) * tensor.element_size())
            self._asked[index] = made = memory.new_idle((rows, *tensor.shape[1:]), tensor.dtype, tensor.device)
            return made.data_ptr()
        except Exception:  # pylint: disable=broad-except  # of torch's; libmuster ends the operation on all ranks
            traceback.print_exc()
            return None

    def take(self, done):
        """The tensors, of a ticket that is done."""
        return [self._take(index, done.shape(index)) for index in range(len(self._tensors))]

    def _take(self, index, shape):
        if index in self._asked:
            return memory.take_over(self._asked[index])
        if 0 in shape:
            return memory.new(shape, self._tensors[index].dtype, self._tensors[index].device)
        return self._rooms[index]
