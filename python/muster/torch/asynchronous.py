"""The operations that return a handle for poll() and synchronize(). They are not differentiable.

The caller must not change the tensors before synchronize(). Thread-safe.
"""

import torch

from muster import _library as lib
from muster import engine, world
from muster.engine import Adasum, Average, Sum
from muster.exceptions import HorovodInternalError
from muster.numpy import even_splits, reduction
from muster.torch import tensors as memory
from muster.torch.results import Results
from muster.world import global_process_set


def _reduce(buffers, kind, average, name, op, prescale_factor, postscale_factor, process_set, wire, finish):
    ticket = world.submit(lib.ALLREDUCE, world.operation_name(kind, name, process_set), buffers, process_set,
                          op=reduction(average, op), prescale=prescale_factor, postscale=postscale_factor, wire=wire)
    return engine.handles.add(ticket, finish)


def allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                    process_set=global_process_set, wire=lib.WIRE_SAME):
    """Starts allreduce(). `wire` is the type to which float32 tensors of a GPU are cast before they are sent
    (compression.wire_of())."""
    buffer, out = memory.into_new(tensor, on_host=op == Adasum)
    return _reduce([buffer], "allreduce", average, name, op, prescale_factor, postscale_factor, process_set, wire,
                   lambda _: memory.moved(out, tensor))


def allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                     process_set=global_process_set, wire=lib.WIRE_SAME):
    """Starts allreduce_(). `wire` is as in allreduce_async()."""
    buffer, copy = memory.in_place(tensor, on_host=op == Adasum)
    return _reduce([buffer], "allreduce", average, name, op, prescale_factor, postscale_factor, process_set, wire,
                   lambda _: memory.copy_back(tensor, copy))


def grouped_allreduce_async(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                            process_set=global_process_set, wire=lib.WIRE_SAME):
    """Starts grouped_allreduce(). `wire` is as in allreduce_async()."""
    tensors = _some(tensors)
    pairs = [memory.into_new(tensor, on_host=op == Adasum) for tensor in tensors]

    def finish(_):
        return [memory.moved(out, tensor) for tensor, (_, out) in zip(tensors, pairs)]

    return _reduce([buffer for buffer, _ in pairs], "grouped_allreduce", average, name, op, prescale_factor,
                   postscale_factor, process_set, wire, finish)


def grouped_allreduce_async_(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                             process_set=global_process_set, wire=lib.WIRE_SAME):
    """Starts grouped_allreduce_(). `wire` is as in allreduce_async()."""
    tensors = _some(tensors)
    pairs = [memory.in_place(tensor, on_host=op == Adasum) for tensor in tensors]

    def finish(_):
        return [memory.copy_back(tensor, copy) for tensor, (_, copy) in zip(tensors, pairs)]

    return _reduce([buffer for buffer, _ in pairs], "grouped_allreduce", average, name, op, prescale_factor,
                   postscale_factor, process_set, wire, finish)


def _some(tensors):
    if isinstance(tensors, torch.Tensor):
        raise ValueError("a grouped operation needs a list of tensors, not one tensor")
    tensors = list(tensors)
    if not tensors:
        raise ValueError("a grouped operation needs at least one tensor")
    return tensors


def sparse_allreduce_async(tensor, name, op, process_set=global_process_set):
    """Starts a sum or average of sparse COO tensors. It gathers the values and indices of all ranks.

    Returns a function, not a handle. The function waits and returns the result, a sparse tensor that is not
    coalesced."""
    if op not in (Average, Sum):
        raise ValueError(f"'{name}': op of a sparse allreduce must be Average or Sum")
    given = tensor.detach().coalesce()
    # Pass one row for each entry, because allgather concatenates rows.
    indices = allgather_async(given.indices().t(), name=f"{name}.indices", process_set=process_set)
    values = allgather_async(given.values(), name=f"{name}.values", process_set=process_set)

    def wait():
        all_indices, all_values = synchronize(indices), synchronize(values)
        if op == Average:
            all_values = all_values / process_set.size()
        return torch.sparse_coo_tensor(all_indices.t(), all_values, given.shape)

    return wait


def _made(kind, code, tensors, name, process_set, finish, rows_of, **options):
    """Starts an operation that allocates its results itself. `finish(ticket, results)` makes the user's result from
    them. `rows_of` is as in Results()."""
    if memory.stay_on_gpu(tensors):
        results = Results(tensors, rows_of)
        ticket = world.submit(code, world.operation_name(kind, name, process_set), results.buffers, process_set,
                              allocate=results.allocate, **options)
        return engine.handles.add(ticket, lambda done: finish(done, results.take(done)))
    ticket = world.submit(code, world.operation_name(kind, name, process_set),
                          [memory.reading(tensor) for tensor in tensors], process_set, **options)

    def made(done):
        return finish(done, [memory.moved(memory.made(done.output(i)), tensor) for i, tensor in enumerate(tensors)])

    return engine.handles.add(ticket, made)


def _only(_, results):
    return results[0]


def _all(_, results):
    return results


def allgather_async(tensor, name=None, process_set=global_process_set):
    """Starts allgather()."""
    return _made("allgather", lib.ALLGATHER, [tensor], name, process_set, _only, _rows_gathered(process_set))


def grouped_allgather_async(tensors, name=None, process_set=global_process_set):
    """Starts grouped_allgather()."""
    return _made("grouped_allgather", lib.ALLGATHER, _some(tensors), name, process_set, _all,
                 _rows_gathered(process_set))


def _rows_gathered(process_set):
    return lambda tensor: world.size_of(process_set) * tensor.shape[0]


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set):
    """Starts broadcast()."""
    buffer, out = memory.into_new(tensor)
    return _broadcast(buffer, root_rank, name, process_set, lambda _: memory.moved(out, tensor))


def broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set):
    """Starts broadcast_()."""
    buffer, copy = memory.in_place(tensor)
    return _broadcast(buffer, root_rank, name, process_set, lambda _: memory.copy_back(tensor, copy))


def _broadcast(buffer, root_rank, name, process_set, finish):
    ticket = world.submit(lib.BROADCAST, world.operation_name("broadcast", name, process_set), [buffer], process_set,
                          root_rank)
    return engine.handles.add(ticket, finish)


def alltoall_async(tensor, splits=None, name=None, process_set=global_process_set):
    """Starts alltoall()."""
    rows = splits_of(tensor, splits, process_set)
    return exchange(tensor, rows, name, process_set, _only if splits is None else tuple_with_splits(len(rows)))


def splits_of(tensor, splits, process_set):
    """Returns the number of rows for each rank. ValueError: the rows do not divide evenly, or `splits` does not have
    one number for each rank."""
    ranks = world.size_of(process_set)
    if tensor.dim() == 0:
        raise ValueError("alltoall needs a tensor with a first dimension")
    rows = even_splits(tensor.shape[0], ranks) if splits is None else [int(split) for split in splits]
    if len(rows) != ranks:
        raise ValueError(f"alltoall needs a split for each of {ranks} ranks, but got {len(rows)}")
    return rows


def exchange(tensor, rows, name, process_set, finish):
    """Starts an alltoall that sends rows[r] rows to each rank r."""
    are_even = len(set(rows)) == 1
    return _made("alltoall", lib.ALLTOALL, [tensor], name, process_set, finish,
                 lambda one: one.shape[0] if are_even else None, splits=rows)


def tuple_with_splits(ranks):
    """Returns a function that returns (result, received splits) of a finished alltoall."""
    return lambda done, results: (results[0], torch.tensor(done.received_splits(ranks), dtype=torch.int32))


def reducescatter_async(tensor, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                        postscale_factor=1.0):
    """Starts reducescatter()."""
    return _scatter("reducescatter", [tensor], name, op, process_set, prescale_factor, postscale_factor, _only)


def grouped_reducescatter_async(tensors, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                                postscale_factor=1.0):
    """Starts grouped_reducescatter()."""
    return _scatter("grouped_reducescatter", _some(tensors), name, op, process_set, prescale_factor, postscale_factor,
                    _all)


def _scatter(kind, tensors, name, op, process_set, prescale_factor, postscale_factor, finish):
    if op == Adasum:
        # Raise a RuntimeError, as Horovod does.
        raise HorovodInternalError("a reducescatter cannot be an Adasum: use allreduce")
    return _made(kind, lib.REDUCESCATTER, tensors, name, process_set, finish, _rows_scattered(process_set), op=op,
                 prescale=prescale_factor, postscale=postscale_factor)


def _rows_scattered(process_set):
    def rows_of(tensor):
        ranks = world.size_of(process_set)
        return tensor.shape[0] // ranks + (process_set.rank() < tensor.shape[0] % ranks)

    return rows_of


def poll(handle):
    """Returns True if the operation is done, so that synchronize() returns at once. ValueError: the handle is unknown
    or was used before."""
    return engine.handles.poll(handle)


def synchronize(handle):
    """Waits for the operation and returns its result: a tensor, or a list of tensors for a grouped operation. None if
    the handle is unknown or was used before. HorovodInternalError: the operation failed."""
    return engine.handles.synchronize(handle)
