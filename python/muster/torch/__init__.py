"""Horovod's API for PyTorch, on libmuster.

    import muster.torch as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

Tensors may be on the CPU, or on one GPU (CUDA) for each rank. Types: float16, bfloat16, float32, float64, int8, uint8,
int16, int32, int64 and bool. Contiguous tensors are not copied. Functions whose names end in "_" work in place.

On a GPU an operation runs after the present work of the current stream, and in parallel with the stream's later work.
Results are on the GPU. Any stream can use them once synchronize() has returned. Adasum copies its tensors to the host
and back. If libmuster finds no driver, all operations copy their tensors. No part of the CUDA side has run on a GPU
yet: docs/collectives.md.

Functions with "_async" return a handle for poll() and synchronize(). The caller must not change the tensors before
synchronize(). `name` must be the same on all ranks. Ranks match unnamed operations of one kind by the order of the
calls.
Errors: ValueError if an argument is wrong. HorovodInternalError if the operation failed. Either the ranks differ, and
only this operation fails. Or a rank has ended, and this and all later operations fail.
"""

from muster.exceptions import HorovodInternalError, HorovodVersionMismatchError, HostsUpdatedInterrupt
from muster.torch.compression import Compression
from muster.torch.functions import (allgather_object, broadcast_object, broadcast_optimizer_state,
                                    broadcast_parameters, empty_registered)
from muster.torch.mpi_ops import (Adasum, Average, Max, Min, Product, ProcessSet, Sum, add_process_set, allgather,
                                  allgather_async, allreduce, allreduce_, allreduce_async, allreduce_async_, alltoall,
                                  alltoall_async, barrier, broadcast, broadcast_, broadcast_async, broadcast_async_,
                                  ccl_built, cross_rank, cross_size, cuda_built, ddl_built, get_process_set_by_id,
                                  global_process_set, gloo_built, gloo_enabled, grouped_allgather,
                                  grouped_allgather_async, grouped_allreduce, grouped_allreduce_,
                                  grouped_allreduce_async, grouped_allreduce_async_, grouped_reducescatter,
                                  grouped_reducescatter_async, init, is_homogeneous, is_initialized, join, local_rank,
                                  local_size, mpi_built, mpi_enabled, mpi_threads_supported, nccl_built, poll,
                                  process_set_ids, rank, reducescatter, reducescatter_async, remove_process_set,
                                  rocm_built, shutdown, size, sparse_allreduce_async, start_timeline, stop_timeline,
                                  synchronize)
from muster.torch.optimizer import DistributedOptimizer
from muster.torch.sync_batch_norm import SyncBatchNorm

from muster.torch import elastic
