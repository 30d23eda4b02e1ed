"""horovod.tensorflow, which is muster.tensorflow."""

from muster.tensorflow import *
