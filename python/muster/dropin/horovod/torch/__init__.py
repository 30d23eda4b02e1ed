"""horovod.torch, which is muster.torch."""

from muster.torch import *
