"""Horovod's elastic API for Keras. muster.elastic explains what it does."""

import tensorflow as tf

from muster.tensorflow.elastic import TensorFlowKerasState, run

KerasState = TensorFlowKerasState


class CommitStateCallback(tf.keras.callbacks.Callback):
    """Commits the state after every `batches_per_commit` batches, and after every epoch."""

    def __init__(self, state, batches_per_commit=1):
        super().__init__()
        self._state = state
        self._batches = batches_per_commit
        self._left = batches_per_commit

    def on_train_begin(self, logs=None):
        """Counts from here, so that all ranks commit at the same batches after the ranks have changed."""
        self._left = self._batches

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
        self._steps = None  # of a whole epoch

    def on_train_begin(self, logs=None):
        """Forgets the number of batches of an epoch, which the number of ranks may have changed."""
        self._steps = None

    def on_epoch_begin(self, epoch, logs=None):
        """Tells other callbacks how many batches of this epoch are left."""
        if self.params.get("steps"):
            self._steps = self._steps or self.params["steps"]
            self.params["steps"] = self._steps - self._state.batch

    def on_train_batch_end(self, batch, logs=None):
        """Stores the number of batches that have ended in this epoch."""
        self._state.batch = batch + 1

    def on_epoch_end(self, epoch, logs=None):
        """Resets the number for the next epoch."""
        self._state.batch = 0


class UpdateEpochStateCallback(tf.keras.callbacks.Callback):
    """Sets state.epoch to the number of finished epochs, also of earlier calls of fit(). The script calls either
    fit(epochs=N - state.epoch) or fit(epochs=N, initial_epoch=state.epoch)."""

    def __init__(self, state):
        super().__init__()
        self._state = state
        self._before = None  # epochs before the first one of this fit()

    def on_train_begin(self, logs=None):
        """Waits for the first epoch."""
        self._before = None

    def on_epoch_begin(self, epoch, logs=None):
        """Finds out at the first epoch whether Keras counts the earlier epochs, too."""
        if self._before is None:
            self._before = self._state.epoch - epoch

    def on_epoch_end(self, epoch, logs=None):
        """Stores the number of epochs that have ended."""
        self._state.epoch = self._before + epoch + 1
