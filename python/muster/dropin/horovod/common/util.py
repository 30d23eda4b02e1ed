"""horovod.common.util: what scripts take from it."""

from muster.util import (ccl_built, check_extension, ddl_built, extension_available, gloo_built, gpu_available,
                         is_iterable, mpi_built, nccl_built, num_rank_is_power_2, split_list)
