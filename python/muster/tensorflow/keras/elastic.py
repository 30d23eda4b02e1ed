"""Horovod's elastic API for Keras. muster.elastic explains what it does in a job with a fixed number of ranks."""

import tensorflow as tf

from muster.elastic import run
from muster.tensorflow.elastic import TensorFlowKerasState

KerasState = TensorFlowKerasState


class CommitStateCallback(tf.keras.callbacks.Callback):
    """Commits the state after every `batches_per_commit` batches, and after every epoch."""

    def __init__(self, state, batches_per_commit=1):
        super().__init__()
        self._state = state
        self._batches = batches_per_commit
        self._left = batches_per_commit

    def on_train_batch_end(self, batch, logs=None):
        """Commits the state if `batches_per_commit` batches have ended since the last commit."""
        self._left -= 1
        if self._left == 0:
            self._left = self._batches
            self._state.commit()

    def on_epoch_end(self, epoch, logs=None):
        """Commits the state."""
        self._left = self._batches
        self._state.commit()


class UpdateBatchStateCallback(tf.keras.callbacks.Callback):
    """Sets state.batch to the number of finished batches of this epoch."""

    def __init__(self, state):
        super().__init__()
        self._state = state

    def on_train_batch_end(self, batch, logs=None):
        """Stores the number of batches that have ended in this epoch."""
        self._state.batch = batch + 1

    def on_epoch_end(self, epoch, logs=None):
        """Resets the number for the next epoch."""
        self._state.batch = 0


class UpdateEpochStateCallback(tf.keras.callbacks.Callback):
    """Sets state.epoch to the number of finished epochs."""

    def __init__(self, state):
        super().__init__()
        self._state = state

    def on_epoch_end(self, epoch, logs=None):
        """Stores the number of epochs that have ended."""
        self._state.epoch = epoch + 1
