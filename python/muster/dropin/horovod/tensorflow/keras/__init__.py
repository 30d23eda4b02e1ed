"""horovod.tensorflow.keras, which is muster.tensorflow.keras."""

from muster.tensorflow.keras import *
