"""horovod.common.util: what scripts take from it."""

from muster.util import extension_available, gpu_available, num_rank_is_power_2, split_list
