"""Horovod's API for TensorFlow 2, on libmuster.

    import muster.tensorflow as hvd

    hvd.init()
    with tf.GradientTape() as tape:
        loss = ...
    tape = hvd.DistributedGradientTape(tape)
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    hvd.broadcast_variables(variables, root_rank=0)     # after the first step

Tensors must be on the CPU. Operations work eagerly and in graphs, but not in code that XLA compiles (jit_compile=True).
`name` must be the same on all ranks. Ranks match unnamed eager operations of one kind by the order of the calls, and
unnamed operations in graphs by their place in the graph.
Errors: tf.errors.InvalidArgumentError if an argument is wrong. tf.errors.FailedPreconditionError if the ranks differ
(only this operation fails). HorovodInternalError if a rank has ended (this and all later operations fail).
In eager code an InvalidArgumentError is also a ValueError, and a FailedPreconditionError also a HorovodInternalError.
In a graph an ended rank causes a tf.errors.UnknownError.
"""

from muster.engine import Adasum, Average, Max, Min, Product, Sum
from muster.exceptions import HorovodInternalError, HorovodVersionMismatchError, HostsUpdatedInterrupt
from muster.tensorflow import elastic
from muster.tensorflow.compression import Compression
from muster.tensorflow.functions import (BroadcastGlobalVariablesHook, allgather_object, broadcast_,
                                         broadcast_global_variables, broadcast_object, broadcast_object_fn,
                                         broadcast_variables)
from muster.tensorflow.gradients import DistributedGradientTape, PartialDistributedGradientTape
from muster.tensorflow.operations import (allgather, allreduce, alltoall, broadcast, grouped_allgather,
                                          grouped_allreduce, grouped_reducescatter, join, local_rank_op, local_size_op,
                                          process_set_included_op, rank_op, reducescatter, size_op)
from muster.tensorflow.optimizer import DistributedOptimizer
from muster.tensorflow.sync_batch_norm import SyncBatchNormalization
from muster.world import (ProcessSet, add_process_set, ccl_built, cross_rank, cross_size, cuda_built, ddl_built,
                          get_process_set_by_id, global_process_set, gloo_built, gloo_enabled, init, is_homogeneous,
                          is_initialized, local_rank, local_size, mpi_built, mpi_enabled, mpi_threads_supported,
                          nccl_built, process_set_ids, rank, remove_process_set, rocm_built, shutdown, size,
                          start_timeline, stop_timeline)
