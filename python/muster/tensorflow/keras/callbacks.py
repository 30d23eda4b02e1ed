"""Horovod's callbacks for Keras."""

import tensorflow as tf

from muster import world
from muster.engine import Average
from muster.tensorflow.elastic import variables_of
from muster.tensorflow.functions import broadcast_variables
from muster.tensorflow.operations import reduce_all
from muster.world import global_process_set


class _Callback(tf.keras.callbacks.Callback):
    """The base of callbacks for models with collectives in their steps. It turns XLA off, because Keras 3 would use
    XLA, and XLA cannot compile collectives."""

    def set_model(self, model):
        """Turns XLA off for the model, then does the base class's work."""
        if getattr(model, "jit_compile", None) is True:
            model.jit_compile = False
        super().set_model(model)


class BroadcastGlobalVariablesCallback(_Callback):
    """Gives all ranks the variables of `root_rank`. Before the first batch it sends the model's variables, if the model
    is built. After that batch it sends the variables of the model and its optimizer, because all exist by then.
    local_variables: a variable, or a collection of variables, of which each rank keeps its own value.
    register_local_var() adds one. `device` is not used. ValueError: local_variables contains something that is not a
    variable."""

    def __init__(self, root_rank, device="", local_variables=None):
        super().__init__()
        del device
        self._root_rank = root_rank
        self._is_done = False
        self._local = []
        if local_variables is not None:
            is_one = hasattr(local_variables, "assign")
            for variable in [local_variables] if is_one else local_variables:
                if not hasattr(variable, "assign"):
                    raise ValueError(f"local_variables must contain variables, not {type(variable).__name__}")
                self.register_local_var(variable)

    def register_local_var(self, var):
        """Lets every rank keep its own value of this variable."""
        self._local.append(var)

    def _variables(self):
        """Returns the variables of the model that ranks share. Empty while the model is not built, because a model of
        Keras 2 then cannot list its variables."""
        if not getattr(self.model, "built", True):
            return []
        local = {id(variable) for variable in self._local}
        return [variable for variable in self.model.variables if id(variable) not in local]

    def on_train_begin(self, logs=None):
        """Sends the model's variables, unless all variables were sent in an earlier training."""
        if not self._is_done:
            broadcast_variables(self._variables(), self._root_rank)

    def on_train_batch_end(self, batch, logs=None):
        """Sends the variables of the model and its optimizer after the first batch."""
        if not self._is_done:
            broadcast_variables(self._variables() + variables_of(self.model.optimizer), self._root_rank)
            self._is_done = True


class MetricAverageCallback(_Callback):
    """Replaces the metrics of an epoch by their averages over all ranks of the process set. On other ranks it changes
    nothing. Callbacks after it in the list see the averages. `device` is not used."""

    def __init__(self, device="", process_set=global_process_set):
        super().__init__()
        del device
        self._process_set = process_set

    def on_epoch_end(self, epoch, logs=None):
        """Replaces the values in `logs` by their averages."""
        if not world.takes_part(self._process_set):
            return
        names = sorted(logs or {})
        values = [tf.constant(float(logs[name]), tf.float64) for name in names]
        averages = reduce_all(values, [f"metric.{name}" for name in names], Average, process_set=self._process_set)
        logs.update({name: float(average) for name, average in zip(names, averages)})


class LearningRateScheduleCallback(_Callback):
    """Sets the learning rate to initial_lr * multiplier(epoch), from start_epoch until before end_epoch.

    multiplier: a number or a function. staircase: the rate changes once per epoch. Otherwise it changes in every batch,
    with fractions of epochs. This needs steps_per_epoch, unless Keras knows it. momentum_correction: when the rate
    changes, the momentum is scaled like the rate for that batch, if the momentum is a variable."""

    def __init__(self, initial_lr, multiplier, start_epoch=0, end_epoch=None, staircase=True, momentum_correction=True,
                 steps_per_epoch=None):
        super().__init__()
        if initial_lr is None:
            raise ValueError("initial_lr must be set")
        self._initial_lr = initial_lr
        self._multiplier = multiplier if callable(multiplier) else lambda epoch: multiplier
        self._start, self._end = start_epoch, end_epoch
        self._is_staircase = staircase
        self._corrects = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self._epoch = 0
        self._momentum = None

    def on_train_begin(self, logs=None):
        """Asks Keras for steps_per_epoch if it is needed and not set. ValueError: Keras does not know it."""
        if self._is_staircase or self.steps_per_epoch:
            return
        self.steps_per_epoch = (self.params or {}).get("steps")
        if not self.steps_per_epoch:
            raise ValueError("steps_per_epoch must be set: Keras does not know how many batches an epoch has")

    def on_epoch_begin(self, epoch, logs=None):
        """Stores the number of the epoch."""
        self._epoch = epoch

    def on_train_batch_begin(self, batch, logs=None):
        """Sets the learning rate if it changes with this batch."""
        if self._epoch < self._start or (self._end is not None and self._epoch >= self._end):
            return
        if not self._is_staircase:
            self._set(self._epoch + batch / self.steps_per_epoch)
        elif batch == 0:
            self._set(self._epoch)

    def on_train_batch_end(self, batch, logs=None):
        """Restores the momentum if it was scaled for this batch."""
        if self._momentum is not None:
            self.model.optimizer.momentum.assign(self._momentum)
            self._momentum = None

    def on_epoch_end(self, epoch, logs=None):
        """Adds the learning rate to `logs`."""
        if logs is not None:
            logs["lr"] = self._rate()

    def _rate(self):
        return float(tf.keras.backend.get_value(self.model.optimizer.learning_rate))

    def _set(self, epoch):
        optimizer = self.model.optimizer
        old, new = self._rate(), self._initial_lr * self._multiplier(epoch)
        optimizer.learning_rate = new
        momentum = getattr(optimizer, "momentum", None)
        if self._corrects and old > 0 and hasattr(momentum, "assign"):
            self._momentum = float(tf.keras.backend.get_value(momentum))
            momentum.assign(self._momentum * new / old)


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raises the learning rate from initial_lr / size() to initial_lr. It raises the rate with every batch, over
    warmup_epochs."""

    def __init__(self, initial_lr, warmup_epochs=5, momentum_correction=True, steps_per_epoch=None, verbose=0):
        def multiplier(epoch):
            done = min((epoch + 1.0 / self.steps_per_epoch) / warmup_epochs, 1.0)
            return 1.0 / world.size() + done * (1.0 - 1.0 / world.size())

        super().__init__(initial_lr, multiplier, end_epoch=warmup_epochs, staircase=False,
                         momentum_correction=momentum_correction, steps_per_epoch=steps_per_epoch)
        self._last = warmup_epochs - 1
        self._is_verbose = verbose > 0

    def on_epoch_end(self, epoch, logs=None):
        """Does the base class's work. After the last epoch of the warmup, rank 0 prints the rate."""
        super().on_epoch_end(epoch, logs)
        if epoch == self._last and self._is_verbose and world.rank() == 0:
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {self._rate():g}.")


class BestModelCheckpoint(tf.keras.callbacks.ModelCheckpoint):
    """Keras' ModelCheckpoint. It saves the best model so far, and only on rank 0."""

    def __init__(self, filepath, monitor="val_loss", verbose=0, mode="auto", save_freq="epoch"):
        super().__init__(filepath, monitor=monitor, verbose=verbose, save_best_only=True, mode=mode,
                         save_freq=save_freq)

    def _save_model(self, *args, **kwargs):
        if world.rank() == 0:
            super()._save_model(*args, **kwargs)
