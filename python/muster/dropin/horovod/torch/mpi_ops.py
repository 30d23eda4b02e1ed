"""horovod.torch.mpi_ops: the operations."""

from muster.torch import *
from muster.world import is_homogeneous
