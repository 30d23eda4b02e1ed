"""horovod.mxnet.functions."""

from muster.mxnet import allgather_object, broadcast_object
