"""horovod.torch.optimizer."""

from muster.torch import DistributedOptimizer
