"""Horovod's operations on TensorFlow's tensors, built on muster.numpy.

Eager tensors are passed on as arrays. muster.tensorflow.graph explains operations in a graph. Operations in a branch,
or in a loop or function that uses variables, keep their order only among themselves. Code that XLA compiles
(jit_compile=True) cannot call operations.
"""

import numpy as np
import tensorflow as tf

from muster import numpy as arrays
from muster import world
from muster.engine import Average, Sum
from muster.numpy import reduction
from muster.tensorflow import errors, graph
from muster.tensorflow.compression import Compression
from muster.world import global_process_set

# TensorFlow calls our functions while it traces users' functions, and must not rewrite them.
unconverted = tf.autograph.experimental.do_not_convert


def call(kind, function, tensors, shapes, dtypes=None, name=None, process_set=global_process_set,
         ignore_name_scope=False):
    """Returns the tensors that function(arrays, name) -> arrays makes of `tensors`. In eager code this calls the
    function at once. Otherwise the function is called when the graph runs.

    kind: the kind of the operation, for its node in a graph. shapes: the known parts of the results' shapes. dtypes:
    the types of the results; by default those of `tensors`. name: the user's name, or None. In eager code the function
    gets this name. In a graph the function always gets a name. ignore_name_scope: in a graph of TensorFlow 1 only the
    last part of the node's name is used.
    ValueError: the process set was not added, or init() was not called."""
    dtypes = [tensor.dtype for tensor in tensors] if dtypes is None else dtypes
    if tf.executing_eagerly():
        with errors.of_tensorflow():
            made = function([tensor.numpy() for tensor in tensors], name)
        return [tf.convert_to_tensor(each) for each in made]
    world.check_known(process_set)
    made = graph.add(kind, function, tensors, dtypes, name, ignore_name_scope)
    for tensor, shape in zip(made, shapes):
        tensor.set_shape(shape)
    return made


def _grad_name(name):
    return None if name is None else f"{name}.gradient"


def _dense(gradients):
    """Converts gradients to tensors, because TensorFlow may pass some as tf.IndexedSlices."""
    return [tf.convert_to_tensor(gradient) for gradient in gradients]


def _unknown_rows(tensor):
    return tf.TensorShape([None]).concatenate(tensor.shape[1:])


def reduce_all(tensors, names, op, prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set,
               groups=None):
    """Returns the reductions of several dense tensors, which run at the same time. names: one for each tensor. groups:
    lists of the tensors' indices. Each list is one unit. Not differentiable."""
    groups = [[i] for i in range(len(tensors))] if groups is None else groups

    def function(given, _):
        begun = [arrays.grouped_allreduce_async([given[i] for i in group], name=names[group[0]], op=op,
                                                prescale_factor=prescale_factor, postscale_factor=postscale_factor,
                                                process_set=process_set) for group in groups]
        made = [None] * len(given)
        for group, handle in zip(groups, begun):
            for i, array in zip(group, arrays.synchronize(handle)):
                made[i] = array
        return made

    if not tensors:
        return []
    return call("allreduce", function, tensors, [tensor.shape for tensor in tensors], name=names[0],
                process_set=process_set)


@unconverted
def grouped_allreduce(tensors, average=None, device_dense="", device_sparse="", compression=Compression.none, op=None,
                      prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set,
                      ignore_name_scope=False, name=None):
    """Does allreduce() for several tensors as one unit, when all ranks have submitted all of them. tf.IndexedSlices
    among the tensors are gathered as another unit."""
    del device_dense, device_sparse
    op = reduction(average, op)
    is_sparse = [isinstance(tensor, tf.IndexedSlices) for tensor in tensors]
    slices = [tensor for tensor, sparse in zip(tensors, is_sparse) if sparse]
    dense = [tensor for tensor, sparse in zip(tensors, is_sparse) if not sparse]
    of_slices = iter(_gather_slices(slices, op, prescale_factor * postscale_factor, name, process_set,
                                    ignore_name_scope))
    of_dense = iter(_reduce_group(dense, compression, op, prescale_factor, postscale_factor, process_set,
                                  ignore_name_scope, name))
    return [next(of_slices if sparse else of_dense) for sparse in is_sparse]


def _reduce_group(tensors, compression, op, prescale_factor, postscale_factor, process_set, ignore_name_scope, name):
    if not tensors:
        return []

    @tf.custom_gradient
    def differentiable(*given):
        def function(values, label):
            return arrays.grouped_allreduce(values, name=label, op=op, prescale_factor=prescale_factor,
                                            postscale_factor=postscale_factor, process_set=process_set)

        def gradient(*upstream):
            return _reduce_group(_dense(upstream), Compression.none, op, prescale_factor, postscale_factor,
                                 process_set, ignore_name_scope, _grad_name(name))

        return call("grouped_allreduce", function, given, [tensor.shape for tensor in given], name=name,
                    process_set=process_set, ignore_name_scope=ignore_name_scope), gradient

    sent, contexts = zip(*[compression.compress(tf.convert_to_tensor(tensor)) for tensor in tensors])
    return [compression.decompress(tensor, ctx) for tensor, ctx in zip(differentiable(*sent), contexts)]


@unconverted
def allreduce(tensor, average=None, device_dense="", device_sparse="", compression=Compression.none, op=None,
              prescale_factor=1.0, postscale_factor=1.0, name=None, process_set=global_process_set,
              ignore_name_scope=False):
    """Returns the reduction of all ranks' tensors with this name, by default their average. Its gradient is the same
    reduction of the gradients. tf.IndexedSlices are gathered. For an average they are divided by the number of ranks.
    The devices are not used.
    In a graph of TensorFlow 1 the node has this name, or a name made from the tensor's. Ranks match operations by the
    names of their nodes. With ignore_name_scope they ignore the scopes in these names.
    NotImplementedError: tf.IndexedSlices with a reduction other than Average or Sum, or with a factor."""
    del device_dense, device_sparse
    op = reduction(average, op)
    if isinstance(tensor, tf.IndexedSlices):
        return _gather_slices([tensor], op, prescale_factor * postscale_factor, name, process_set,
                              ignore_name_scope)[0]

    @tf.custom_gradient
    def differentiable(given):
        def function(values, label):
            return [arrays.allreduce(values[0], name=label, op=op, prescale_factor=prescale_factor,
                                     postscale_factor=postscale_factor, process_set=process_set)]

        def gradient(upstream):
            return allreduce(tf.convert_to_tensor(upstream), op=op, prescale_factor=prescale_factor,
                             postscale_factor=postscale_factor, name=_grad_name(name), process_set=process_set,
                             ignore_name_scope=ignore_name_scope)

        return call("allreduce", function, [given], [given.shape], name=name, process_set=process_set,
                    ignore_name_scope=ignore_name_scope)[0], gradient

    sent, ctx = compression.compress(tf.convert_to_tensor(tensor))
    return compression.decompress(differentiable(sent), ctx)


def _gather_slices(slices, op, scale, name, process_set, ignore_name_scope):
    """Returns the reductions of several tf.IndexedSlices. The average of integers has a floating-point type, like a
    division in TensorFlow."""
    if not slices:
        return []
    if op not in (Average, Sum):
        raise NotImplementedError("tf.IndexedSlices support only Average and Sum: use one of these, or "
                                  "sparse_as_dense=True")
    if scale != 1.0:
        raise NotImplementedError("tf.IndexedSlices do not support prescale_factor and postscale_factor")
    values, indices = (
        grouped_allgather(parts, None if name is None else f"{name}.{what}", ignore_name_scope, process_set)
        for parts, what in (([each.values for each in slices], "values"), ([each.indices for each in slices], "indices")))
    if op == Average:
        values = [each / tf.cast(world.size_of(process_set), each.dtype) for each in values]
    return [tf.IndexedSlices(value, index, each.dense_shape) for value, index, each in zip(values, indices, slices)]


def _gathered(given, name, process_set, ignore_name_scope):
    """Returns ([the tensors of all ranks], [the number of rows from each rank])."""
    def function(values, label):
        rows = [np.array([value.shape[0] for value in values], np.int64).reshape(1, -1)]
        return arrays.grouped_allgather(values + rows, label, process_set)

    made = call("allgather", function, given, [_unknown_rows(tensor) for tensor in given] + [(None, len(given))],
                [tensor.dtype for tensor in given] + [tf.int64], name, process_set, ignore_name_scope)
    return made[:-1], made[-1]


@unconverted
def grouped_allgather(tensors, name=None, ignore_name_scope=False, process_set=global_process_set):
    """Does allgather() for several tensors as one unit."""
    @tf.custom_gradient
    def differentiable(*given):
        made, rows = _gathered(given, name, process_set, ignore_name_scope)

        def gradient(*upstream):
            mine = process_set.rank()
            begins = tf.reduce_sum(rows[:mine], axis=0)
            averages = grouped_allreduce(_dense(upstream), op=Average, name=_grad_name(name), process_set=process_set,
                                         ignore_name_scope=ignore_name_scope)
            return [each[begins[i]:begins[i] + rows[mine][i]] for i, each in enumerate(averages)]

        return made, gradient

    return list(differentiable(*[tf.convert_to_tensor(tensor) for tensor in tensors]))


@unconverted
def allgather(tensor, name=None, ignore_name_scope=False, process_set=global_process_set):
    """Returns the tensors of all ranks, concatenated along the first dimension. Only that dimension may differ. Its
    gradient is this rank's part of the average of all ranks' gradients."""
    return grouped_allgather([tensor], name, ignore_name_scope, process_set)[0]


@unconverted
def broadcast(tensor, root_rank, name=None, ignore_name_scope=False, process_set=global_process_set):
    """Returns the tensor of `root_rank` (a rank of the world) on all ranks. On `root_rank` its gradient is the average
    of all ranks' gradients. On other ranks it is zero."""
    @tf.custom_gradient
    def differentiable(given):
        def function(values, label):
            return [arrays.broadcast(values[0], root_rank, label, process_set)]

        def gradient(upstream):
            average = allreduce(tf.convert_to_tensor(upstream), op=Average, name=_grad_name(name),
                                process_set=process_set, ignore_name_scope=ignore_name_scope)
            if world.rank() == root_rank:
                return average
            # Keep this dependency: without it a session would not compute the average, but other ranks wait for it.
            with tf.control_dependencies([average]):
                return tf.identity(tf.zeros_like(average))

        return call("broadcast", function, [given], [given.shape], name=name, process_set=process_set,
                    ignore_name_scope=ignore_name_scope)[0], gradient

    return differentiable(tf.convert_to_tensor(tensor))


@unconverted
def alltoall(tensor, splits=None, name=None, ignore_name_scope=False, process_set=global_process_set):
    """Sends splits[r] rows of `tensor` to each rank r. Returns the rows from all ranks, in rank order. With `splits` it
    also returns the number of rows from each rank. Its gradient sends the gradients back."""
    ranks = world.size_of(process_set)

    @tf.custom_gradient
    def differentiable(given, rows):
        def function(values, label):
            return list(arrays.alltoall(values[0], values[1], label, process_set))

        made, received = call("alltoall", function, [given, rows], [_unknown_rows(given), (ranks,)],
                              [given.dtype, tf.int32], name, process_set, ignore_name_scope)

        def gradient(upstream, _):
            return alltoall(upstream, received, _grad_name(name), ignore_name_scope, process_set)[0], None

        return (made, received), gradient

    given = tf.convert_to_tensor(tensor)
    if splits is None:
        rows = tf.shape(given)[0]
        tf.debugging.assert_equal(rows % ranks, 0,
                                  f"alltoall: the rows do not divide evenly among {ranks} ranks: set splits")
        return differentiable(given, tf.fill([ranks], rows // ranks))[0]
    return differentiable(given, tf.cast(tf.convert_to_tensor(splits), tf.int32))


@unconverted
def grouped_reducescatter(tensors, device_dense="", compression=Compression.none, op=Average,
                          process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0, name=None,
                          ignore_name_scope=False):
    """Does reducescatter() for several tensors as one unit."""
    del device_dense

    @tf.custom_gradient
    def differentiable(*given):
        def function(values, label):
            return arrays.grouped_reducescatter(values, label, op, process_set, prescale_factor, postscale_factor)

        def gradient(*upstream):
            scale = prescale_factor * postscale_factor * (process_set.size() if op == Sum else 1)
            gathered = grouped_allgather(upstream, _grad_name(name), ignore_name_scope, process_set)
            return [each * tf.cast(scale, each.dtype) for each in gathered]

        return call("reducescatter", function, given, [_unknown_rows(tensor) for tensor in given], name=name,
                    process_set=process_set, ignore_name_scope=ignore_name_scope), gradient

    if not tensors:
        return []
    sent, contexts = zip(*[compression.compress(tf.convert_to_tensor(tensor)) for tensor in tensors])
    return [compression.decompress(tensor, ctx) for tensor, ctx in zip(differentiable(*sent), contexts)]


@unconverted
def reducescatter(tensor, device_dense="", compression=Compression.none, op=Average, name=None,
                  process_set=global_process_set, ignore_name_scope=False, prescale_factor=1.0, postscale_factor=1.0):
    """Returns this rank's rows of the reduction of all ranks' tensors (Average or Sum). If the rows do not divide
    evenly, the first ranks get one more. Its gradient is the allgather of all ranks' gradients. For a Sum it is
    multiplied by the number of ranks."""
    return grouped_reducescatter([tensor], device_dense, compression, op, process_set, prescale_factor,
                                 postscale_factor, name, ignore_name_scope)[0]


def join():
    """Waits until all ranks have joined. A rank joins when it has no more data. While it waits, it contributes nothing
    to the allreduces of the other ranks. Returns the rank that joined last."""
    return arrays.join()


def _number(function):
    def array_of():
        return np.array(function(), np.int32)

    if tf.executing_eagerly():
        return tf.convert_to_tensor(array_of())
    made = tf.numpy_function(array_of, [], tf.int32, stateful=True)
    made.set_shape(())
    return made


@unconverted
def size_op(process_set_id=0, name=None):
    """Returns size() of a process set as a tensor. It is read when a graph runs."""
    del name
    return _number(lambda: world.get_process_set_by_id(process_set_id).size())


@unconverted
def rank_op(name=None):
    """Returns rank() as a tensor. It is read when a graph runs."""
    del name
    return _number(world.rank)


@unconverted
def local_size_op(name=None):
    """Returns local_size() as a tensor. It is read when a graph runs."""
    del name
    return _number(world.local_size)


@unconverted
def local_rank_op(name=None):
    """Returns local_rank() as a tensor. It is read when a graph runs."""
    del name
    return _number(world.local_rank)


@unconverted
def process_set_included_op(process_set_id=0, name=None):
    """Returns 1 if this rank is in the process set, else 0, as a tensor. It is read when a graph runs."""
    del name
    return _number(lambda: world.get_process_set_by_id(process_set_id).included())
