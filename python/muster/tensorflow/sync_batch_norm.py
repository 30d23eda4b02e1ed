"""SyncBatchNormalization: normalizes batches with the statistics of all ranks' batches."""

import tensorflow as tf

from muster import world
from muster.engine import Sum
from muster.tensorflow.operations import allreduce, unconverted


class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    """Keras' BatchNormalization with the mean and variance of all ranks' batches. The batches may differ in size.
    `fused` must be False."""

    def __init__(self, fused=False, **kwargs):
        if fused:
            raise ValueError("SyncBatchNormalization does not support fused=True.")
        if hasattr(tf.keras.layers.BatchNormalization, "_fused_can_be_used"):  # Keras 2, where fused is the default
            kwargs["fused"] = False
        super().__init__(**kwargs)
        self.supports_jit = False

    @unconverted
    def _moments(self, inputs, *args, **kwargs):
        mean, variance = super()._moments(inputs, *args, **kwargs)
        if world.size() == 1:
            return mean, variance
        rows = tf.cast(tf.size(inputs) / tf.size(mean), mean.dtype)
        together = tf.stack([mean * rows, (variance + tf.square(mean)) * rows, tf.ones_like(mean) * rows])
        total, squares, count = tf.unstack(allreduce(together, op=Sum))
        mean = total / count
        return mean, squares / count - tf.square(mean)
