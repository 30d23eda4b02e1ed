"""horovod.tensorflow.compression."""

from muster.tensorflow.compression import *
