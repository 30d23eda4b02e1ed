"""Horovod's operations on TensorFlow's tensors, over muster.numpy.

Eager tensors are handed over as arrays. In a graph an operation is a tf.numpy_function, which blocks a thread of
TensorFlow until it is done; tf.function runs such functions in the order in which it has met them, the same on all
ranks, so that ranks never wait for each other in different ones. Those in a branch, a loop or a function that takes
variables are in that order only among themselves, and those in the graphs of TensorFlow 1's sessions have none: there
control dependencies have to order them. XLA (jit_compile=True) cannot call them.
"""

import numpy as np
import tensorflow as tf

from muster import numpy as arrays
from muster import world
from muster.engine import Average, Sum
from muster.numpy import reduction
from muster.tensorflow.compression import Compression
from muster.world import global_process_set

# Our functions are called while users' functions are traced, and are not to be rewritten.
unconverted = tf.autograph.experimental.do_not_convert


def call(function, tensors, shapes, dtypes=None):
    """The tensors that function(arrays) -> arrays makes of `tensors`: now, or when the graph runs. `shapes`: what is
    known of theirs; `dtypes`: those of `tensors` unless others are named."""
    dtypes = [tensor.dtype for tensor in tensors] if dtypes is None else dtypes
    if tf.executing_eagerly():
        return [tf.convert_to_tensor(made) for made in function([tensor.numpy() for tensor in tensors])]
    made = tf.numpy_function(lambda *given: function(list(given)), tensors, dtypes, stateful=True)
    for tensor, shape in zip(made, shapes):
        tensor.set_shape(shape)
    return made


def _grad_name(name):
    return None if name is None else f"{name}.gradient"


def _unknown_rows(tensor):
    return tf.TensorShape([None]).concatenate(tensor.shape[1:])


def reduce_all(tensors, names, op, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set,
               groups=None):
    """The reductions of several dense tensors, all on their way at once. names: one for each. groups: lists of their
    indices; each list is one unit. No gradients."""
    groups = [[i] for i in range(len(tensors))] if groups is None else groups

    def function(given):
        begun = [arrays.grouped_allreduce_async([given[i] for i in group], name=names[group[0]], op=op,
                                                prescale_factor=prescale_factor, postscale_factor=postscale_factor,
                                                process_set=process_set) for group in groups]
        made = [None] * len(given)
        for group, handle in zip(groups, begun):
            for i, array in zip(group, arrays.synchronize(handle)):
                made[i] = array
        return made

    return call(function, tensors, [tensor.shape for tensor in tensors]) if tensors else []


@unconverted
def grouped_allreduce(tensors, average=None, device_dense="", device_sparse="", compression=Compression.none, op=None,
                      prescale_factor=1.0, postscale_factor=1.0, name=None, process_set=global_process_set,
                      ignore_name_scope=False):
    """allreduce() of several tensors that are one unit: none is reduced before all ranks have submitted all of them."""
    del device_dense, device_sparse, ignore_name_scope
    op = reduction(average, op)
    if any(isinstance(tensor, tf.IndexedSlices) for tensor in tensors):
        return [allreduce(tensor, op=op, prescale_factor=prescale_factor, postscale_factor=postscale_factor,
                          process_set=process_set) for tensor in tensors]

    @tf.custom_gradient
    def differentiable(*given):
        def function(values):
            return arrays.grouped_allreduce(values, name=name, op=op, prescale_factor=prescale_factor,
                                            postscale_factor=postscale_factor, process_set=process_set)

        def gradient(*upstream):
            return grouped_allreduce(upstream, op=op, prescale_factor=prescale_factor,
                                     postscale_factor=postscale_factor, name=_grad_name(name), process_set=process_set)

        return call(function, given, [tensor.shape for tensor in given]), gradient

    sent, contexts = zip(*[compression.compress(tf.convert_to_tensor(tensor)) for tensor in tensors])
    return [compression.decompress(tensor, ctx) for tensor, ctx in zip(differentiable(*sent), contexts)]


@unconverted
def allreduce(tensor, average=None, device_dense="", device_sparse="", compression=Compression.none, op=None,
              prescale_factor=1.0, postscale_factor=1.0, name=None, process_set=global_process_set,
              ignore_name_scope=False):
    """The reduction of all ranks' tensors of this name, by default their average. Its gradient is the same reduction of
    the gradients. tf.IndexedSlices are gathered, and divided by the number of ranks for an average. The devices and
    ignore_name_scope are not used.
    ValueError: tf.IndexedSlices and another reduction than Average or Sum."""
    del device_dense, device_sparse, ignore_name_scope
    op = reduction(average, op)
    if isinstance(tensor, tf.IndexedSlices):
        return _gather_slices(tensor, op, prescale_factor * postscale_factor, name, process_set)

    @tf.custom_gradient
    def differentiable(given):
        def function(values):
            return [arrays.allreduce(values[0], name=name, op=op, prescale_factor=prescale_factor,
                                     postscale_factor=postscale_factor, process_set=process_set)]

        def gradient(upstream):
            return allreduce(upstream, op=op, prescale_factor=prescale_factor, postscale_factor=postscale_factor,
                             name=_grad_name(name), process_set=process_set)

        return call(function, [given], [given.shape])[0], gradient

    sent, ctx = compression.compress(tf.convert_to_tensor(tensor))
    return compression.decompress(differentiable(sent), ctx)


def _gather_slices(slices, op, scale, name, process_set):
    if op not in (Average, Sum):
        raise ValueError("tf.IndexedSlices can be averaged and added up, not reduced otherwise: "
                         "sparse_as_dense=True makes them dense")
    values, indices = (allgather(part, None if name is None else f"{name}.{what}", process_set)
                       for part, what in ((slices.values, "values"), (slices.indices, "indices")))
    scale = scale / process_set.size() if op == Average else scale
    return tf.IndexedSlices(values if scale == 1.0 else values * tf.cast(scale, values.dtype), indices,
                            slices.dense_shape)


def _gathered(given, name, process_set):
    """([the tensors of all ranks], [how many rows came from each rank])"""
    def function(values):
        rows = [np.array([value.shape[0] for value in values], np.int64).reshape(1, -1)]
        return arrays.grouped_allgather(values + rows, name, process_set)

    made = call(function, given, [_unknown_rows(tensor) for tensor in given] + [(None, len(given))],
                [tensor.dtype for tensor in given] + [tf.int64])
    return made[:-1], made[-1]


@unconverted
def grouped_allgather(tensors, name=None, process_set=global_process_set, ignore_name_scope=False):
    """allgather() of several tensors that are one unit."""
    del ignore_name_scope

    @tf.custom_gradient
    def differentiable(*given):
        made, rows = _gathered(given, name, process_set)

        def gradient(*upstream):
            mine = process_set.rank()
            begins = tf.reduce_sum(rows[:mine], axis=0)
            sums = grouped_allreduce(upstream, op=Sum, name=_grad_name(name), process_set=process_set)
            return [each[begins[i]:begins[i] + rows[mine][i]] for i, each in enumerate(sums)]

        return made, gradient

    return list(differentiable(*[tf.convert_to_tensor(tensor) for tensor in tensors]))


@unconverted
def allgather(tensor, name=None, process_set=global_process_set, ignore_name_scope=False):
    """The tensors of all ranks, one behind the other along the first dimension, in which they may differ. Its gradient
    is this rank's part of the sum of all ranks' gradients."""
    return grouped_allgather([tensor], name, process_set, ignore_name_scope)[0]


@unconverted
def broadcast(tensor, root_rank, name=None, process_set=global_process_set, ignore_name_scope=False):
    """The tensor of `root_rank` (a rank of the world) on all ranks. Its gradient is the sum of all ranks' gradients on
    `root_rank`, and zero elsewhere."""
    del ignore_name_scope

    @tf.custom_gradient
    def differentiable(given):
        def gradient(upstream):
            total = allreduce(upstream, op=Sum, name=_grad_name(name), process_set=process_set)
            return total if world.rank() == root_rank else tf.zeros_like(total)

        return call(lambda values: [arrays.broadcast(values[0], root_rank, name, process_set)], [given],
                    [given.shape])[0], gradient

    return differentiable(tf.convert_to_tensor(tensor))


@unconverted
def alltoall(tensor, splits=None, name=None, process_set=global_process_set, ignore_name_scope=False):
    """splits[r] rows of `tensor` to each rank r; the rows that came from all ranks, in rank order. With `splits` also
    how many came from each. Its gradient sends the gradients back."""
    del ignore_name_scope
    ranks = world.size_of(process_set)

    @tf.custom_gradient
    def differentiable(given, rows):
        def function(values):
            return list(arrays.alltoall(values[0], values[1], name, process_set))

        made, received = call(function, [given, rows], [_unknown_rows(given), (ranks,)], [given.dtype, tf.int32])

        def gradient(upstream, _):
            return alltoall(upstream, received, _grad_name(name), process_set)[0], None

        return (made, received), gradient

    given = tf.convert_to_tensor(tensor)
    if splits is None:
        rows = tf.shape(given)[0]
        tf.debugging.assert_equal(rows % ranks, 0, f"alltoall without splits needs rows for {ranks} ranks evenly")
        return differentiable(given, tf.fill([ranks], rows // ranks))[0]
    return differentiable(given, tf.cast(tf.convert_to_tensor(splits), tf.int32))


@unconverted
def grouped_reducescatter(tensors, device_dense="", compression=Compression.none, op=Average, name=None,
                          process_set=global_process_set, ignore_name_scope=False, prescale_factor=1.0,
                          postscale_factor=1.0):
    """reducescatter() of several tensors that are one unit."""
    del device_dense, ignore_name_scope

    @tf.custom_gradient
    def differentiable(*given):
        def function(values):
            return arrays.grouped_reducescatter(values, name, op, process_set, prescale_factor, postscale_factor)

        def gradient(*upstream):
            scale = prescale_factor * postscale_factor * (process_set.size() if op == Sum else 1)
            gathered = grouped_allgather(upstream, _grad_name(name), process_set)
            return [each * tf.cast(scale, each.dtype) for each in gathered]

        return call(function, given, [_unknown_rows(tensor) for tensor in given]), gradient

    sent, contexts = zip(*[compression.compress(tf.convert_to_tensor(tensor)) for tensor in tensors])
    return [compression.decompress(tensor, ctx) for tensor, ctx in zip(differentiable(*sent), contexts)]


@unconverted
def reducescatter(tensor, device_dense="", compression=Compression.none, op=Average, name=None,
                  process_set=global_process_set, ignore_name_scope=False, prescale_factor=1.0, postscale_factor=1.0):
    """This rank's rows of the reduction of all ranks' tensors (Average or Sum); the first ranks get one more where they
    do not come out even. Its gradient gathers those of all ranks, times their number for a sum."""
    return grouped_reducescatter([tensor], device_dense, compression, op, name, process_set, ignore_name_scope,
                                 prescale_factor, postscale_factor)[0]


def join():
    """For ranks that have no more data: contributes nothing to the other ranks' allreduces until all ranks have joined.
    The last rank that joined."""
    return arrays.join()


def _number(function):
    return call(lambda _: [np.array(function(), np.int32)], [], [()], [tf.int32])[0]


@unconverted
def size_op(process_set_id=0, name=None):
    """size() of a process set as a tensor, asked for when a graph runs."""
    del name
    return _number(lambda: world.get_process_set_by_id(process_set_id).size())


@unconverted
def rank_op(name=None):
    """rank() as a tensor, asked for when a graph runs."""
    del name
    return _number(world.rank)


@unconverted
def local_size_op(name=None):
    """local_size() as a tensor, asked for when a graph runs."""
    del name
    return _number(world.local_size)


@unconverted
def local_rank_op(name=None):
    """local_rank() as a tensor, asked for when a graph runs."""
    del name
    return _number(world.local_rank)


@unconverted
def process_set_included_op(process_set_id=0, name=None):
    """1 if this rank is in the process set, else 0, as a tensor that is asked for when a graph runs."""
    del name
    return _number(lambda: world.get_process_set_by_id(process_set_id).included())
