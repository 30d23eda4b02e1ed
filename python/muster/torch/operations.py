"""The operations that wait for their results. If an operation makes a new tensor, it is differentiable.

In the backward pass every rank calls the opposite operation. So all ranks of a process set must run the backward pass,
or no rank. The opposite operations:
- allreduce: the same allreduce;
- allgather: this rank's rows of the average;
- broadcast: the average on the root, zeros elsewhere;
- alltoall: an alltoall that returns the rows to their senders;
- reducescatter: allgather, multiplied by the number of ranks if it was a Sum.
"""

import torch
from torch.autograd import Function

from muster.engine import Average, Sum
from muster.torch import asynchronous as start
from muster.torch.asynchronous import synchronize
from muster.torch.compression import Compression, compress, wire_of
from muster.world import global_process_set


def _backward_name(name):
    return None if name is None else f"{name}.backward"


def _is_recorded(*tensors):
    return torch.is_grad_enabled() and any(getattr(tensor, "requires_grad", False) for tensor in tensors)


class _Allreduce(Function):
    @staticmethod
    def forward(ctx, grouped, name, compression, options, *tensors):
        ctx.call = grouped, name, compression, options
        wire = wire_of(compression, tensors, options["op"])
        if grouped:
            return tuple(synchronize(start.grouped_allreduce_async(tensors, name=name, wire=wire, **options)))
        return synchronize(start.allreduce_async(tensors[0], name=name, wire=wire, **options))

    @staticmethod
    def backward(ctx, *grads):
        grouped, name, compression, options = ctx.call
        name = _backward_name(name)
        if grouped:
            return None, None, None, None, *grouped_allreduce(grads, name=name, compression=compression, **options)
        return None, None, None, None, allreduce(grads[0], name=name, compression=compression, **options)


def allreduce(tensor, average=None, name=None, compression=Compression.none, op=None, prescale_factor=1.0,
              postscale_factor=1.0, process_set=global_process_set):
    """Returns the reduction of all ranks' tensors with this name, by default their average, as a new tensor.

    Every input is multiplied by `prescale_factor`, and the result by `postscale_factor`. Averages of integers are
    truncated. Differentiable."""
    [(sent, ctx)], wire = compress(compression, [tensor], op)
    options = {"average": average, "op": op, "prescale_factor": prescale_factor,
               "postscale_factor": postscale_factor, "process_set": process_set}
    if _is_recorded(sent):
        result = _Allreduce.apply(False, name, compression if wire else Compression.none, options, sent)
    else:
        result = synchronize(start.allreduce_async(sent, name=name, wire=wire, **options))
    return compression.decompress(result, ctx)


def allreduce_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
               process_set=global_process_set):
    """Does allreduce() in place. Not differentiable."""
    return synchronize(
        start.allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set))


def grouped_allreduce(tensors, average=None, name=None, compression=Compression.none, op=None, prescale_factor=1.0,
                      postscale_factor=1.0, process_set=global_process_set):
    """Does allreduce() for several tensors as one unit, when all ranks have submitted all of them. Differentiable."""
    pairs, wire = compress(compression, list(tensors), op)
    sent = [tensor for tensor, _ in pairs]
    options = {"average": average, "op": op, "prescale_factor": prescale_factor,
               "postscale_factor": postscale_factor, "process_set": process_set}
    if _is_recorded(*sent):
        results = _Allreduce.apply(True, name, compression if wire else Compression.none, options, *sent)
    else:
        results = synchronize(start.grouped_allreduce_async(sent, name=name, wire=wire, **options))
    return [compression.decompress(result, ctx) for result, (_, ctx) in zip(results, pairs)]


def grouped_allreduce_(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                       process_set=global_process_set):
    """Does grouped_allreduce() in place. Not differentiable."""
    return synchronize(
        start.grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set))


class _Allgather(Function):
    @staticmethod
    def forward(ctx, grouped, name, process_set, *tensors):
        begin = start.grouped_allgather_async if grouped else start.allgather_async
        result = synchronize(begin(tensors if grouped else tensors[0], name, process_set))
        ctx.call = name, process_set, [tensor.shape[0] for tensor in tensors]
        return tuple(result) if grouped else result

    @staticmethod
    def backward(ctx, *grads):
        name, process_set, rows = ctx.call
        name = _backward_name(name)
        averages = start.grouped_allreduce_async(grads, name=name, op=Average, process_set=process_set)
        # Gather the numbers of rows: this rank's rows follow those of the ranks before it.
        table = synchronize(start.allgather_async(torch.tensor([rows]), name, process_set))
        begins = table[:process_set.rank()].sum(dim=0).tolist()
        averages = synchronize(averages)
        return None, None, None, *(a.narrow(0, begin, own) for a, begin, own in zip(averages, begins, rows))


def allgather(tensor, name=None, process_set=global_process_set):
    """Returns the tensors of all ranks, concatenated along dimension 0. Only that dimension may differ.
    Differentiable."""
    if _is_recorded(tensor):
        return _Allgather.apply(False, name, process_set, tensor)
    return synchronize(start.allgather_async(tensor, name, process_set))


def grouped_allgather(tensors, name=None, process_set=global_process_set):
    """Does allgather() for several tensors as one unit. Differentiable."""
    tensors = list(tensors)
    if _is_recorded(*tensors):
        return list(_Allgather.apply(True, name, process_set, *tensors))
    return synchronize(start.grouped_allgather_async(tensors, name, process_set))


class _Broadcast(Function):
    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):
        ctx.call = root_rank, name, process_set
        return synchronize(start.broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx, grad):
        root_rank, name, process_set = ctx.call
        average = allreduce(grad, name=_backward_name(name), op=Average, process_set=process_set)
        if process_set.ranks[process_set.rank()] != root_rank:
            average = torch.zeros_like(average)
        return average, None, None, None


def broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    """Returns the tensor of `root_rank` (a rank of the world) on all ranks, as a new tensor. Differentiable."""
    if _is_recorded(tensor):
        return _Broadcast.apply(tensor, root_rank, name, process_set)
    return synchronize(start.broadcast_async(tensor, root_rank, name, process_set))


def broadcast_(tensor, root_rank, name=None, process_set=global_process_set):
    """Does broadcast() in place. Not differentiable."""
    return synchronize(start.broadcast_async_(tensor, root_rank, name, process_set))


class _Alltoall(Function):
    @staticmethod
    def forward(ctx, tensor, rows, name, process_set):
        handle = start.exchange(tensor, rows, name, process_set, start.tuple_with_splits(len(rows)))
        result, received = synchronize(handle)
        ctx.call = received.tolist(), name, process_set
        ctx.mark_non_differentiable(received)
        return result, received

    @staticmethod
    def backward(ctx, grad, _):
        received, name, process_set = ctx.call
        back, _ = alltoall(grad, received, _backward_name(name), process_set)
        return back, None, None, None


def alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    """Sends splits[r] rows of `tensor` to each rank r. Without `splits` it sends each rank the same number of rows.
    Returns the rows from all ranks, in rank order. With `splits` it returns a tuple of these rows and an int32 tensor
    with the number of rows from each rank. Differentiable."""
    if not _is_recorded(tensor):
        return synchronize(start.alltoall_async(tensor, splits, name, process_set))
    result, received = _Alltoall.apply(tensor, start.splits_of(tensor, splits, process_set), name, process_set)
    return result if splits is None else (result, received)


class _Reducescatter(Function):
    @staticmethod
    def forward(ctx, grouped, name, options, *tensors):
        ctx.call = grouped, name, options
        if grouped:
            return tuple(synchronize(start.grouped_reducescatter_async(tensors, name, **options)))
        return synchronize(start.reducescatter_async(tensors[0], name, **options))

    @staticmethod
    def backward(ctx, *grads):
        grouped, name, options = ctx.call
        process_set = options["process_set"]
        scale = options["prescale_factor"] * options["postscale_factor"]
        if options["op"] == Sum:
            scale *= process_set.size()
        scaled = [grad if scale == 1 else grad * scale for grad in grads]
        if grouped:
            return None, None, None, *grouped_allgather(scaled, _backward_name(name), process_set)
        return None, None, None, allgather(scaled[0], _backward_name(name), process_set)


def reducescatter(tensor, name=None, compression=Compression.none, op=Average, process_set=global_process_set,
                  prescale_factor=1.0, postscale_factor=1.0):
    """Returns this rank's rows of the reduction of all ranks' tensors. If the rows do not divide evenly, the first
    ranks get one more. Differentiable."""
    sent, ctx = compression.compress(tensor)
    options = {"op": op, "process_set": process_set, "prescale_factor": prescale_factor,
               "postscale_factor": postscale_factor}
    if _is_recorded(sent):
        result = _Reducescatter.apply(False, name, options, sent)
    else:
        result = synchronize(start.reducescatter_async(sent, name, **options))
    return compression.decompress(result, ctx)


def grouped_reducescatter(tensors, name=None, compression=Compression.none, op=Average,
                          process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0):
    """Does reducescatter() for several tensors as one unit. Differentiable."""
    pairs = [compression.compress(tensor) for tensor in tensors]
    sent = [tensor for tensor, _ in pairs]
    options = {"op": op, "process_set": process_set, "prescale_factor": prescale_factor,
               "postscale_factor": postscale_factor}
    if _is_recorded(*sent):
        results = _Reducescatter.apply(True, name, options, *sent)
    else:
        results = synchronize(start.grouped_reducescatter_async(sent, name, **options))
    return [compression.decompress(result, ctx) for result, (_, ctx) in zip(results, pairs)]
