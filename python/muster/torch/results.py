"""Memory for the results of operations on a GPU that allocate their results (allgather, alltoall, reducescatter).

When an operation is submitted, this module allocates memory for the result, as if all ranks had equal inputs. If the
size of the result then differs, a thread of libmuster calls allocate().
"""

import math
import traceback

from muster.torch import tensors as memory


class Results:
    """The results of one operation on `tensors`, which lie on one GPU. `rows_of(tensor)` returns the number of the
    result's rows if all ranks have equal inputs. None if even then the number is unknown."""

    def __init__(self, tensors, rows_of):
        self._tensors = tensors
        self._rooms = [self._room_for(tensor, rows_of(tensor) if tensor.dim() else None) for tensor in tensors]
        self._allocated = {}  # index -> the tensor that allocate() has made
        self.buffers = [memory.reading_on_gpu(tensor, room) for tensor, room in zip(tensors, self._rooms)]

    @staticmethod
    def _room_for(tensor, rows):
        return None if rows is None else memory.new((rows, *tensor.shape[1:]), tensor.dtype, tensor.device)

    def allocate(self, index, size):
        """Returns the address of memory for result `index`. `size` is in bytes and not 0. None if torch cannot allocate
        the memory."""
        try:
            tensor = self._tensors[index]
            rows = size // (math.prod(tensor.shape[1:]) * tensor.element_size())
            self._allocated[index] = made = memory.new_idle((rows, *tensor.shape[1:]), tensor.dtype, tensor.device)
            return made.data_ptr()
        except Exception:  # pylint: disable=broad-except  # torch failed; libmuster ends the operation on all ranks
            traceback.print_exc()
            return None

    def take(self, done):
        """Returns the result tensors of a finished ticket."""
        return [self._result(index, done.shape(index)) for index in range(len(self._tensors))]

    def _result(self, index, shape):
        if index in self._allocated:
            return memory.use_in_stream(self._allocated[index])
        if 0 in shape:
            return memory.new(shape, self._tensors[index].dtype, self._tensors[index].device)
        return self._rooms[index]
