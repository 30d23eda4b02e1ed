"""horovod.keras.callbacks."""

from muster.tensorflow.keras.callbacks import (BestModelCheckpoint, BroadcastGlobalVariablesCallback,
                                               LearningRateScheduleCallback, LearningRateWarmupCallback,
                                               MetricAverageCallback)
