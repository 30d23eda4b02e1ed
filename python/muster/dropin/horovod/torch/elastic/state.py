"""horovod.torch.elastic.state."""

from muster.torch.elastic import *
