"""horovod.mxnet.mpi_ops: the operations."""

from muster.basics import HorovodBasics
from muster.mxnet import *

_basics = HorovodBasics()
