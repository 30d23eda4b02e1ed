"""Horovod's elastic API, without a framework: state that ranks save, restore, and make the same on all ranks.

With it, scripts for elastic jobs run in jobs with a fixed number of ranks: see run().
"""

import copy
import functools

from muster.numpy import broadcast_object


def run(func):
    """Returns a function that makes the state the same on all ranks and then calls `func(state, ...)`.

    A job keeps the ranks that it started with: the launcher neither adds nor replaces ranks. If a rank ends, the call
    ends with a HorovodInternalError, and the state is not restored. So the script must write checkpoints."""
    @functools.wraps(func)
    def wrapper(state, *args, **kwargs):
        state.sync()
        return func(state, *args, **kwargs)

    return wrapper


def run_fn(func, reset):
    """Returns run(func). `reset` is not used. In Horovod it joins the job again after the ranks have changed."""
    del reset
    return run(func)


class State:
    """The state from which a training can continue."""

    def __init__(self):
        self._reset_callbacks = []

    def register_reset_callbacks(self, callbacks):
        """Adds functions without arguments. on_reset() calls them."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self):
        """Calls reset() and the callbacks. Call it when the ranks of the job have changed."""
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self):
        """Calls save() and check_host_updates()."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self):
        """Raises HostsUpdatedInterrupt if the hosts have changed. In a job with a fixed number of ranks they never
        change."""

    def save(self):
        """Keeps the state in memory."""
        raise NotImplementedError(f"{type(self).__name__} needs save()")

    def restore(self):
        """Restores the state that was saved last."""
        raise NotImplementedError(f"{type(self).__name__} needs restore()")

    def sync(self):
        """Gives all ranks the state of rank 0, and saves it."""
        raise NotImplementedError(f"{type(self).__name__} needs sync()")

    def reset(self):
        """Drops everything that depends on the ranks of the job."""


class ObjectState(State):
    """Keeps objects that can be pickled and copied, as attributes: ObjectState(epoch=0).epoch."""

    def __init__(self, **kwargs):
        super().__init__()
        self._names = list(kwargs)
        for name, value in kwargs.items():
            setattr(self, name, value)
        self._saved = {}
        ObjectState.save(self)

    def save(self):
        self._saved = {name: copy.deepcopy(getattr(self, name)) for name in self._names}

    def restore(self):
        for name, value in self._saved.items():
            setattr(self, name, copy.deepcopy(value))

    def sync(self):
        if not self._names:
            return
        values = broadcast_object({name: getattr(self, name) for name in self._names}, 0, name="elastic.objects")
        for name, value in values.items():
            setattr(self, name, value)
        ObjectState.save(self)
