"""horovod.mxnet.compression."""

from muster.mxnet.compression import *
