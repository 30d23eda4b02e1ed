"""horovod.keras.elastic."""

from muster.tensorflow.keras.elastic import (CommitStateCallback, KerasState, UpdateBatchStateCallback,
                                             UpdateEpochStateCallback, run)
