"""horovod.tensorflow.sync_batch_norm."""

from muster.tensorflow import SyncBatchNormalization
