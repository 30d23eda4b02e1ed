"""horovod.torch.sync_batch_norm."""

from muster.torch import SyncBatchNorm
