"""Horovod's API for MXNet 1.9, on libmuster.

    import muster.mxnet as hvd

    hvd.init()
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1 * hvd.size()})

Arrays must be on the CPU. Every function returns when its operation is done. Errors: ValueError if an argument is
wrong, HorovodInternalError if the operation failed.
"""

from muster.engine import Adasum, Average, Max, Min, Product, Sum
from muster.exceptions import HorovodInternalError, HorovodVersionMismatchError, HostsUpdatedInterrupt
from muster.mxnet.compression import Compression
from muster.mxnet.operations import (allgather, allreduce, allreduce_, alltoall, broadcast, broadcast_,
                                     grouped_allgather, grouped_allreduce, grouped_allreduce_, grouped_reducescatter,
                                     reducescatter)
from muster.mxnet.training import DistributedOptimizer, DistributedTrainer, broadcast_parameters
from muster.numpy import allgather_object, barrier, broadcast_object
from muster.world import (ProcessSet, add_process_set, ccl_built, cross_rank, cross_size, cuda_built, ddl_built,
                          get_process_set_by_id, global_process_set, gloo_built, gloo_enabled, init, is_homogeneous,
                          is_initialized, local_rank, local_size, mpi_built, mpi_enabled, mpi_threads_supported,
                          nccl_built, process_set_ids, rank, remove_process_set, rocm_built, shutdown, size,
                          start_timeline, stop_timeline)
