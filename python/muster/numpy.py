"""Horovod's API on NumPy arrays. The modules of the other frameworks are built on it, except muster.torch.

    import muster.numpy as hvd

    hvd.init()
    total = hvd.allreduce(np.arange(4.0), op=hvd.Sum)

Types: float16, float32, float64, int8, uint8, int16, int32, int64 and bool. uint16, uint32 and uint64 work only in
allgather, broadcast, alltoall and sums.
Results are new arrays. Functions whose names end in "_" work in place, on arrays that are contiguous and writable.

Functions with "_async" return a handle for poll() and synchronize(). The caller must not change the arrays before
synchronize(). `name` must be the same on all ranks. Ranks match unnamed operations of one kind by the order of the
calls.
Errors: ValueError if an argument is wrong. HorovodInternalError if the operation failed. Either the ranks differ, and
only this operation fails. Or a rank has ended, and this and all later operations fail.
"""

import pickle

import numpy as np

from muster import _library as lib
from muster import engine, registered, world
from muster.engine import Adasum, Average, Buffer, Max, Min, Product, Sum
from muster.exceptions import HorovodInternalError, HorovodVersionMismatchError, HostsUpdatedInterrupt
from muster.world import (ProcessSet, add_process_set, ccl_built, cross_rank, cross_size, cuda_built, ddl_built,
                          get_process_set_by_id, global_process_set, gloo_built, gloo_enabled, init, is_homogeneous,
                          is_initialized, local_rank, local_size, mpi_built, mpi_enabled, mpi_threads_supported,
                          nccl_built, process_set_ids, rank, remove_process_set, rocm_built, shutdown, size,
                          start_timeline, stop_timeline)

_TYPES = {np.dtype(np.float16): lib.FLOAT16, np.dtype(np.float32): lib.FLOAT32, np.dtype(np.float64): lib.FLOAT64,
          np.dtype(np.int8): lib.INT8, np.dtype(np.uint8): lib.UINT8, np.dtype(np.int16): lib.INT16,
          np.dtype(np.int32): lib.INT32, np.dtype(np.int64): lib.INT64, np.dtype(np.bool_): lib.BOOL}
# An unsigned type is sent as the signed type of the same size, which has the same bits and wraps in the same way.
_UNSIGNED = {np.dtype(np.uint16): lib.INT16, np.dtype(np.uint32): lib.INT32, np.dtype(np.uint64): lib.INT64}


def _type_of(array, is_computed=False):
    found = _TYPES.get(array.dtype)
    if found is None and array.dtype.name == "bfloat16":  # from ml_dtypes, which TensorFlow installs
        found = lib.BFLOAT16
    if found is None and not is_computed:
        found = _UNSIGNED.get(array.dtype)
    if found is None:
        raise ValueError(f"arrays of {array.dtype} are not supported here")
    return found


def _contiguous(array):
    """Returns `array` in C order. np.ascontiguousarray would add a dimension to an array without dimensions."""
    array = np.asarray(array)
    return array if array.flags.c_contiguous else array.copy(order="C")


def _buffer(array, out=None, is_computed=False):
    kept = (array, out)
    return Buffer(array.ctypes.data, 0 if out is None else out.ctypes.data, _type_of(array, is_computed), array.shape,
                  kept)


def empty_registered(shape, dtype=np.float32, name=None, process_set=global_process_set):
    """Returns an array of zeros in memory that the ranks of a host share: allreduce_() of it copies nothing, unless
    libmuster packs it with other small arrays. Collective: all ranks ask for the same size, and reduce the same arrays.

    The memory is free when no array refers to it any more, also after shutdown()."""
    made = np.empty(shape, np.dtype(dtype))
    _type_of(made)
    output = registered.new(made.nbytes, name, process_set)
    return made if made.nbytes == 0 else np.frombuffer(output.data, dtype=made.dtype).reshape(made.shape)


def reduction(average, op):
    """Returns the reduction that a call requests: `op`, or the older argument `average`. ValueError: both are set."""
    if average is not None and op is not None:
        raise ValueError("set op or average (the older argument), and not both")
    if op is not None:
        return op
    return Sum if average is False else Average


def _in_place(array):
    if not (isinstance(array, np.ndarray) and array.flags.c_contiguous and array.flags.writeable):
        raise ValueError("an operation in place needs a contiguous, writable array")
    return array


def _reduce(arrays, outs, name, op, prescale_factor, postscale_factor, process_set):
    is_computed = op not in (Sum,) or prescale_factor != 1.0 or postscale_factor != 1.0
    buffers = [_buffer(array, out, is_computed) for array, out in zip(arrays, outs)]
    return world.submit(lib.ALLREDUCE, name, buffers, process_set, op=op, prescale=prescale_factor,
                        postscale=postscale_factor)


def allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                    process_set=global_process_set):
    """Starts allreduce(). synchronize() returns its result."""
    array = _contiguous(tensor)
    return _allreduce_into([array], [np.empty_like(array)], "allreduce", average, name, op, prescale_factor,
                           postscale_factor, process_set, lambda outs: outs[0])


def allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                     process_set=global_process_set):
    """Starts allreduce_()."""
    array = _in_place(tensor)
    return _allreduce_into([array], [array], "allreduce", average, name, op, prescale_factor, postscale_factor,
                           process_set, lambda outs: outs[0])


def grouped_allreduce_async(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                            process_set=global_process_set):
    """Starts grouped_allreduce()."""
    arrays = [_contiguous(tensor) for tensor in tensors]
    return _allreduce_into(arrays, [np.empty_like(array) for array in arrays], "grouped_allreduce", average, name, op,
                           prescale_factor, postscale_factor, process_set, list)


def grouped_allreduce_async_(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                             process_set=global_process_set):
    """Starts grouped_allreduce_()."""
    arrays = [_in_place(tensor) for tensor in tensors]
    return _allreduce_into(arrays, arrays, "grouped_allreduce", average, name, op, prescale_factor, postscale_factor,
                           process_set, list)


def _allreduce_into(arrays, outs, kind, average, name, op, prescale_factor, postscale_factor, process_set, result):
    ticket = _reduce(arrays, outs, world.operation_name(kind, name, process_set), reduction(average, op),
                     prescale_factor, postscale_factor, process_set)
    return engine.handles.add(ticket, lambda _: result(outs))


def allreduce(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
              process_set=global_process_set):
    """Returns the reduction of all ranks' arrays with this name, by default their average. Every input is multiplied by
    `prescale_factor`, and the result by `postscale_factor`."""
    return synchronize(allreduce_async(tensor, average, name, op, prescale_factor, postscale_factor, process_set))


def allreduce_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
               process_set=global_process_set):
    """Does allreduce() in place."""
    return synchronize(allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set))


def grouped_allreduce(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                      process_set=global_process_set):
    """Does allreduce() for several arrays as one unit, when all ranks have submitted all of them."""
    return synchronize(
        grouped_allreduce_async(tensors, average, name, op, prescale_factor, postscale_factor, process_set))


def grouped_allreduce_(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                       process_set=global_process_set):
    """Does grouped_allreduce() in place."""
    return synchronize(
        grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set))


def _array_of(output, dtype):
    return np.frombuffer(output.data, dtype=dtype).reshape(output.shape)


def _made_async(kind, code, arrays, name, process_set, result, is_computed=False, **options):
    """Starts an operation that allocates its results itself."""
    buffers = [_buffer(array, None, is_computed) for array in arrays]
    ticket = world.submit(code, world.operation_name(kind, name, process_set), buffers, process_set, **options)
    dtypes = [array.dtype for array in arrays]

    def finish(done):
        return result(done, [_array_of(done.output(i), dtype) for i, dtype in enumerate(dtypes)])

    return engine.handles.add(ticket, finish)


def allgather_async(tensor, name=None, process_set=global_process_set):
    """Starts allgather()."""
    return _made_async("allgather", lib.ALLGATHER, [_contiguous(tensor)], name, process_set, lambda _, made: made[0])


def allgather(tensor, name=None, process_set=global_process_set):
    """Returns the arrays of all ranks, concatenated along the first dimension. Only that dimension may differ."""
    return synchronize(allgather_async(tensor, name, process_set))


def grouped_allgather_async(tensors, name=None, process_set=global_process_set):
    """Starts grouped_allgather()."""
    return _made_async("grouped_allgather", lib.ALLGATHER, [_contiguous(tensor) for tensor in tensors], name,
                       process_set, lambda _, made: made)


def grouped_allgather(tensors, name=None, process_set=global_process_set):
    """Does allgather() for several arrays as one unit."""
    return synchronize(grouped_allgather_async(tensors, name, process_set))


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set):
    """Starts broadcast()."""
    array = _contiguous(tensor)
    return _broadcast_into(array, np.empty_like(array), root_rank, name, process_set)


def broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set):
    """Starts broadcast_()."""
    array = _in_place(tensor)
    return _broadcast_into(array, array, root_rank, name, process_set)


def _broadcast_into(array, out, root_rank, name, process_set):
    ticket = world.submit(lib.BROADCAST, world.operation_name("broadcast", name, process_set), [_buffer(array, out)],
                          process_set, root_rank)
    return engine.handles.add(ticket, lambda _: out)


def broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    """Returns the array of `root_rank` (a rank of the world) on all ranks."""
    return synchronize(broadcast_async(tensor, root_rank, name, process_set))


def broadcast_(tensor, root_rank, name=None, process_set=global_process_set):
    """Does broadcast() in place."""
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


def even_splits(rows, ranks):
    """Returns the splits of an alltoall() call without `splits`. ValueError: the rows do not divide evenly."""
    if rows % ranks != 0:
        raise ValueError(f"{rows} rows do not divide evenly among {ranks} ranks: set splits")
    return [rows // ranks] * ranks


def alltoall_async(tensor, splits=None, name=None, process_set=global_process_set):
    """Starts alltoall()."""
    array = _contiguous(tensor)
    ranks = world.size_of(process_set)
    if array.ndim == 0:
        raise ValueError("alltoall needs an array with a first dimension")
    rows = even_splits(array.shape[0], ranks) if splits is None else [int(split) for split in splits]
    if len(rows) != ranks:
        raise ValueError(f"alltoall needs a split for each of {ranks} ranks, but got {len(rows)}")

    def result(done, made):
        if splits is None:
            return made[0]
        return made[0], np.array(done.received_splits(ranks), dtype=np.int32)

    return _made_async("alltoall", lib.ALLTOALL, [array], name, process_set, result, splits=rows)


def alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    """Sends splits[r] rows of `tensor` to each rank r. Returns the rows from all ranks, in rank order. With `splits` it
    also returns the number of rows from each rank."""
    return synchronize(alltoall_async(tensor, splits, name, process_set))


def reducescatter_async(tensor, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                        postscale_factor=1.0):
    """Starts reducescatter()."""
    return _made_async("reducescatter", lib.REDUCESCATTER, [_contiguous(tensor)], name, process_set,
                       lambda _, made: made[0], is_computed=True, op=op, prescale=prescale_factor,
                       postscale=postscale_factor)


def reducescatter(tensor, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                  postscale_factor=1.0):
    """Returns this rank's rows of the reduction of all ranks' arrays. If the rows do not divide evenly, the first ranks
    get one more."""
    return synchronize(reducescatter_async(tensor, name, op, process_set, prescale_factor, postscale_factor))


def grouped_reducescatter_async(tensors, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                                postscale_factor=1.0):
    """Starts grouped_reducescatter()."""
    return _made_async("grouped_reducescatter", lib.REDUCESCATTER, [_contiguous(tensor) for tensor in tensors], name,
                       process_set, lambda _, made: made, is_computed=True, op=op, prescale=prescale_factor,
                       postscale=postscale_factor)


def grouped_reducescatter(tensors, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                          postscale_factor=1.0):
    """Does reducescatter() for several arrays as one unit."""
    return synchronize(
        grouped_reducescatter_async(tensors, name, op, process_set, prescale_factor, postscale_factor))


def join(device=-1):
    """Waits until all ranks have joined. A rank joins when it has no more data. While it waits, it contributes nothing
    to the allreduces of the other ranks. Returns the rank that joined last, the same on all ranks. `device` is not
    used."""
    ticket = world.submit(lib.JOIN, "join", [])
    ticket.wait()
    world.restart_names()
    return ticket.last_joined()


def barrier(process_set=global_process_set):
    """Returns when all ranks have called it."""
    world.submit(lib.BARRIER, world.operation_name("barrier", None, process_set), [], process_set).wait()


def poll(handle):
    """Returns True if the operation is done, so that synchronize() returns at once."""
    return engine.handles.poll(handle)


def synchronize(handle):
    """Waits for the operation and returns its result. None if the handle is unknown or was used before."""
    return engine.handles.synchronize(handle)


def _dumps(obj):
    """Pickles an object. Uses cloudpickle if it is installed, because it can also pickle lambdas and classes of
    scripts."""
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps(obj)
    return cloudpickle.dumps(obj)


def broadcast_object(obj, root_rank=0, name=None, process_set=global_process_set):
    """Returns the object of `root_rank` on all ranks. It must be possible to pickle the object."""
    name = world.operation_name("broadcast_object", name, process_set)
    is_root = rank() == root_rank
    data = np.frombuffer(_dumps(obj), dtype=np.uint8).copy() if is_root else None
    size_of = np.array([len(data) if is_root else 0], dtype=np.int64)
    broadcast_(size_of, root_rank, f"{name}.size", process_set)
    if not is_root:
        data = np.empty(size_of[0], dtype=np.uint8)
    broadcast_(data, root_rank, f"{name}.data", process_set)
    return obj if is_root else pickle.loads(data.tobytes())


def allgather_object(obj, name=None, process_set=global_process_set):
    """Returns the objects of all ranks, in rank order."""
    name = world.operation_name("allgather_object", name, process_set)
    data = np.frombuffer(_dumps(obj), dtype=np.uint8)
    sizes = allgather(np.array([len(data)], dtype=np.int64), f"{name}.sizes", process_set)
    everything = allgather(data, f"{name}.data", process_set)
    ends = np.cumsum(sizes)
    return [pickle.loads(everything[end - length:end].tobytes()) for end, length in zip(ends, sizes)]
