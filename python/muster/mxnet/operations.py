"""Horovod's operations on MXNet's arrays, built on muster.numpy. They wait until MXNet has computed the arrays."""

import mxnet as mx
import numpy as np
from mxnet.base import MXNetError

from muster import numpy as arrays
from muster.engine import Average
from muster.numpy import reduction
from muster.world import global_process_set


class InvalidArgument(ValueError, MXNetError):
    """An operation is not possible."""


def _made(array, tensor):
    return mx.nd.array(array, ctx=tensor.context, dtype=array.dtype)


def _assign(tensors, made):
    for tensor, array in zip(tensors, made):
        if tensor.size:
            tensor[:] = array
    return tensors


def _values(tensors):
    return [tensor.asnumpy() for tensor in tensors]


def _reduced(tensors, average, name, op, prescale_factor, postscale_factor, process_set):
    return arrays.grouped_allreduce(_values(tensors), average, name, op, prescale_factor, postscale_factor, process_set)


def allreduce(tensor, average=None, name=None, priority=0, prescale_factor=1.0, postscale_factor=1.0,
              process_set=global_process_set, op=None):
    """Returns the reduction of all ranks' arrays with this name, by default their average. No function here uses
    `priority`."""
    return grouped_allreduce([tensor], average, name, priority, prescale_factor, postscale_factor, process_set, op)[0]


def allreduce_(tensor, average=None, name=None, priority=0, prescale_factor=1.0, postscale_factor=1.0,
               process_set=global_process_set, op=None):
    """Does allreduce() in place."""
    return grouped_allreduce_([tensor], average, name, priority, prescale_factor, postscale_factor, process_set, op)[0]


def grouped_allreduce(tensors, average=None, name=None, priority=0, prescale_factor=1.0, postscale_factor=1.0,
                      process_set=global_process_set, op=None):
    """Does allreduce() for several arrays as one unit, when all ranks have submitted all of them."""
    del priority
    made = _reduced(tensors, average, name, op, prescale_factor, postscale_factor, process_set)
    return [_made(array, tensor) for array, tensor in zip(made, tensors)]


def grouped_allreduce_(tensors, average=None, name=None, priority=0, prescale_factor=1.0, postscale_factor=1.0,
                       process_set=global_process_set, op=None):
    """Does grouped_allreduce() in place."""
    del priority
    return _assign(tensors, _reduced(tensors, average, name, op, prescale_factor, postscale_factor, process_set))


def reduce_all_(tensors, names, op, prescale_factor, postscale_factor, process_set, groups, compression):
    """Reduces arrays in place, all at the same time. groups: lists of their indices. Each list is one unit."""
    sent, contexts = zip(*[compression.compress(tensor) for tensor in tensors])
    values = _values(sent)
    begun = [arrays.grouped_allreduce_async([values[i] for i in group], None, names[group[0]], reduction(None, op),
                                            prescale_factor, postscale_factor, process_set) for group in groups]
    for group, handle in zip(groups, begun):
        for i, array in zip(group, arrays.synchronize(handle)):
            tensors[i][:] = compression.decompress(_made(array, tensors[i]), contexts[i])


def allgather(tensor, name=None, priority=0, process_set=global_process_set):
    """Returns the arrays of all ranks, concatenated along the first dimension. Only that dimension may differ."""
    del priority
    return _made(arrays.allgather(tensor.asnumpy(), name, process_set), tensor)


def grouped_allgather(tensors, name=None, priority=0, process_set=global_process_set):
    """Does allgather() for several arrays as one unit."""
    del priority
    made = arrays.grouped_allgather(_values(tensors), name, process_set)
    return [_made(array, tensor) for array, tensor in zip(made, tensors)]


def broadcast(tensor, root_rank, name=None, priority=0, process_set=global_process_set):
    """Returns the array of `root_rank` (a rank of the world) on all ranks."""
    del priority
    return _made(arrays.broadcast(tensor.asnumpy(), root_rank, name, process_set), tensor)


def broadcast_(tensor, root_rank, name=None, priority=0, process_set=global_process_set):
    """Does broadcast() in place."""
    del priority
    return _assign([tensor], [arrays.broadcast(tensor.asnumpy(), root_rank, name, process_set)])[0]


def alltoall(tensor, splits=None, name=None, priority=0, process_set=global_process_set):
    """Sends splits[r] rows of `tensor` to each rank r. Returns the rows from all ranks, in rank order. With `splits` it
    also returns the number of rows from each rank. ValueError (which is also an MXNetError): the splits are not int32,
    or do not fit the tensor."""
    del priority
    rows = None if splits is None else _splits(splits)
    try:
        made = arrays.alltoall(tensor.asnumpy(), rows, name, process_set)
    except ValueError as error:
        raise InvalidArgument(str(error)) from None
    if splits is None:
        return _made(made, tensor)
    made, received = made
    return _made(made, tensor), mx.nd.array(received, dtype=received.dtype)


def _splits(given):
    if not isinstance(given, mx.nd.NDArray):
        return given
    if given.dtype != np.int32:
        raise InvalidArgument(f"alltoall needs splits of type int32, not {np.dtype(given.dtype)}")
    return given.asnumpy()


def reducescatter(tensor, op=Average, name=None, priority=0, process_set=global_process_set, prescale_factor=1.0,
                  postscale_factor=1.0):
    """Returns this rank's rows of the reduction of all ranks' arrays. If the rows do not divide evenly, the first ranks
    get one more."""
    return grouped_reducescatter([tensor], op, name, priority, process_set, prescale_factor, postscale_factor)[0]


def grouped_reducescatter(tensors, op=Average, name=None, priority=0, process_set=global_process_set,
                          prescale_factor=1.0, postscale_factor=1.0):
    """Does reducescatter() for several arrays as one unit."""
    del priority
    made = arrays.grouped_reducescatter(_values(tensors), name, op, process_set, prescale_factor, postscale_factor)
    return [_made(array, tensor) for array, tensor in zip(made, tensors)]
