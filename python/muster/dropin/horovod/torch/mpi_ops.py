"""horovod.torch.mpi_ops: the operations."""

from muster.basics import HorovodBasics
from muster.torch import *
from muster.world import is_homogeneous

from horovod.common.util import get_average_backwards_compatibility_fun

_basics = HorovodBasics()
handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(_basics)
