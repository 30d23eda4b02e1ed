"""muster.tensorflow.keras, under the name that scripts with `import horovod.keras` use."""

from muster.tensorflow.keras import *
from muster.tensorflow.keras import callbacks, elastic
