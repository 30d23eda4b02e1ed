"""Horovod's API for Keras with TensorFlow, Keras 2 and 3, on libmuster.

    import muster.tensorflow.keras as hvd

    hvd.init()
    model.compile(hvd.DistributedOptimizer(tf.keras.optimizers.Adam(1e-3 * hvd.size())), loss=...)
    model.fit(..., callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])

Keras 3 compiles models with XLA, and XLA cannot compile these operations. So pass jit_compile=False to compile(), or
pass one of these callbacks to fit().
"""

import tensorflow as tf

from muster.engine import Adasum, Average, Max, Min, Product, Sum
from muster.tensorflow import functions, operations
from muster.tensorflow.compression import Compression
from muster.tensorflow.functions import (allgather_object, broadcast_global_variables, broadcast_object,
                                         broadcast_variables)
from muster.tensorflow.keras import callbacks, elastic
from muster.tensorflow.optimizer import distribute
from muster.world import (ProcessSet, add_process_set, ccl_built, cross_rank, cross_size, cuda_built, ddl_built,
                          global_process_set, gloo_built, gloo_enabled, init, is_homogeneous, is_initialized,
                          local_rank, local_size, mpi_built, mpi_enabled, mpi_threads_supported, nccl_built, rank,
                          remove_process_set, rocm_built, shutdown, size, start_timeline, stop_timeline)


def DistributedOptimizer(optimizer, name=None, device_dense="", device_sparse="", compression=Compression.none,
                         sparse_as_dense=False, gradient_predivide_factor=1.0, op=Average, backward_passes_per_step=1,
                         average_aggregated_gradients=False, num_groups=0, groups=None,
                         process_set=global_process_set, scale_local_gradients=True):
    """Does DistributedOptimizer() of muster.tensorflow. The arguments have the order of horovod.keras."""
    del device_dense, device_sparse
    return distribute(optimizer, name, backward_passes_per_step, average_aggregated_gradients, compression=compression,
                      sparse_as_dense=sparse_as_dense, op=op, gradient_predivide_factor=gradient_predivide_factor,
                      num_groups=num_groups, groups=groups, process_set=process_set,
                      scale_local_gradients=scale_local_gradients)


def PartialDistributedOptimizer(optimizer, name=None, device_dense="", device_sparse="", compression=Compression.none,
                                sparse_as_dense=False, gradient_predivide_factor=1.0, op=Average,
                                backward_passes_per_step=1, average_aggregated_gradients=False, num_groups=0,
                                groups=None, process_set=global_process_set, local_layers=None,
                                scale_local_gradients=True):
    """Does DistributedOptimizer(), but does not reduce the gradients of `local_layers` (one layer or several)."""
    del device_dense, device_sparse
    return distribute(optimizer, name, backward_passes_per_step, average_aggregated_gradients, compression=compression,
                      sparse_as_dense=sparse_as_dense, op=op, gradient_predivide_factor=gradient_predivide_factor,
                      num_groups=num_groups, groups=groups, process_set=process_set,
                      scale_local_gradients=scale_local_gradients, local_layers=local_layers)


def allreduce(value, name=None, average=None, prescale_factor=1.0, postscale_factor=1.0, op=None,
              compression=Compression.none):
    """Returns the reduction of a value, by default the average. tf.convert_to_tensor() must accept the value."""
    return operations.allreduce(tf.convert_to_tensor(value), average=average, name=name, op=op, compression=compression,
                                prescale_factor=prescale_factor, postscale_factor=postscale_factor)


def allgather(value, name=None):
    """Returns the values of all ranks, concatenated along the first dimension."""
    return operations.allgather(tf.convert_to_tensor(value), name)


def broadcast(value, root_rank, name=None):
    """Returns the value of `root_rank`."""
    return operations.broadcast(tf.convert_to_tensor(value), root_rank, name)


def reducescatter(value, name=None, op=Average):
    """Returns this rank's rows of the reduction."""
    return operations.reducescatter(tf.convert_to_tensor(value), name=name, op=op)


def load_model(filepath, custom_optimizers=None, custom_objects=None, compression=Compression.none, legacy_opts=False):
    """Does keras.models.load_model(), and makes the loaded optimizer a DistributedOptimizer. custom_optimizers: the
    user's own classes. `legacy_opts` is not used, because this function loads every kind of file."""
    del legacy_opts
    known = {optimizer.__name__: optimizer for optimizer in custom_optimizers or []} | dict(custom_objects or {})
    model = tf.keras.models.load_model(filepath, custom_objects=known)
    if getattr(model, "optimizer", None) is not None:
        DistributedOptimizer(model.optimizer, compression=compression)
    return model
