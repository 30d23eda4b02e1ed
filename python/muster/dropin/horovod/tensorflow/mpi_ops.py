"""horovod.tensorflow.mpi_ops: the operations."""

from muster.tensorflow import *
