"""Horovod's API for PyTorch, on libmuster.

    import muster.torch as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

Tensors of the CPU and of one GPU (CUDA) a rank, of float16, bfloat16, float32, float64, int8, uint8, int16, int32,
int64 and bool; contiguous ones are read and written where they are. Functions whose names end in "_" work in place.

On a GPU operations follow what the current stream has when they are called, and run beside what it gets next; results are
on the GPU, and can be used in any stream when synchronize() has returned. Adasum goes through the host, and so does all
where libmuster has no driver. Of the CUDA side no part has run on a GPU yet: docs/collectives.md.

Functions with "_async" return a handle for poll() and synchronize(). Tensors that were given stay as they are until
then. `name` is the same on all ranks; without one, operations are matched by the order of the calls of their kind.
Errors: ValueError for what cannot be done, HorovodInternalError for what failed on the way: ranks that differ (that
operation alone), a rank that has ended (this and all later ones).
"""

from muster.exceptions import HorovodInternalError, HorovodVersionMismatchError, HostsUpdatedInterrupt
from muster.torch.compression import Compression
from muster.torch.functions import (allgather_object, broadcast_object, broadcast_optimizer_state,
                                    broadcast_parameters)
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
