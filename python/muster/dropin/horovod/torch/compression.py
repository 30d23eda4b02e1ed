"""horovod.torch.compression."""

from muster.torch.compression import *
