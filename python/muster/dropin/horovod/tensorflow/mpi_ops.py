"""horovod.tensorflow.mpi_ops: the operations."""

from muster.basics import HorovodBasics
from muster.tensorflow import *

from horovod.common.util import get_average_backwards_compatibility_fun
from horovod.common.util import num_rank_is_power_2 as check_num_rank_power_of_2
from horovod.tensorflow.util import _executing_eagerly

_basics = HorovodBasics()
handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(_basics)
