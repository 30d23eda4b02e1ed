"""horovod.torch.elastic."""

from muster.torch.elastic import *
