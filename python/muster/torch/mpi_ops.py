"""All functions except optimizers and state. Scripts import them from Horovod's module of this name."""

from muster.engine import Adasum, Average, Max, Min, Product, Sum
from muster.exceptions import HorovodInternalError
from muster.numpy import barrier, join
from muster.torch.asynchronous import (allgather_async, allreduce_async, allreduce_async_, alltoall_async,
                                       broadcast_async, broadcast_async_, grouped_allgather_async,
                                       grouped_allreduce_async, grouped_allreduce_async_,
                                       grouped_reducescatter_async, poll, reducescatter_async,
                                       sparse_allreduce_async, synchronize)
from muster.torch.compression import Compression
from muster.torch.operations import (allgather, allreduce, allreduce_, alltoall, broadcast, broadcast_,
                                     grouped_allgather, grouped_allreduce, grouped_allreduce_, grouped_reducescatter,
                                     reducescatter)
from muster.world import (ProcessSet, add_process_set, ccl_built, cross_rank, cross_size, cuda_built, ddl_built,
                          get_process_set_by_id, global_process_set, gloo_built, gloo_enabled, init, is_homogeneous,
                          is_initialized, local_rank, local_size, mpi_built, mpi_enabled, mpi_threads_supported,
                          nccl_built, process_set_ids, rank, remove_process_set, rocm_built, shutdown, size,
                          start_timeline, stop_timeline)
