"""horovod.mxnet.mpi_ops: the operations."""

from muster.mxnet import *
