"""horovod.mxnet, which is muster.mxnet."""

from muster.mxnet import *
