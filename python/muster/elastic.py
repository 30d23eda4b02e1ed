"""Horovod's elastic names, without a framework: state that is saved, restored and made the same on all ranks.

Jobs of a fixed number of ranks run scripts that are written for elastic ones: see run().
"""

import copy
import functools

from muster.numpy import broadcast_object


def run(func):
    """A function that makes the state the same on all ranks and then calls `func(state, ...)`.

    The ranks of a job are those that it was started with: the launcher adds none and replaces none. So a
    HorovodInternalError (a rank has ended) is not answered by restoring the state, but ends the call, and what is to be
    kept has to be in a checkpoint."""
    @functools.wraps(func)
    def wrapper(state, *args, **kwargs):
        state.sync()
        return func(state, *args, **kwargs)

    return wrapper


def run_fn(func, reset):
    """run(func). `reset`, which joins again after the ranks have changed, is not used."""
    del reset
    return run(func)


class State:
    """What a training has to have to go on from where it was."""

    def __init__(self):
        self._reset_callbacks = []

    def register_reset_callbacks(self, callbacks):
        """Functions without arguments that on_reset() calls."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self):
        """To be called when the ranks of the job are others than before."""
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self):
        """save() and check_host_updates()."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self):
        """Raises HostsUpdatedInterrupt when hosts come or go. They do not in a job of a fixed number of ranks."""

    def save(self):
        """Keeps the state in memory."""
        raise NotImplementedError(f"{type(self).__name__} needs save()")

    def restore(self):
        """Goes back to what was saved last."""
        raise NotImplementedError(f"{type(self).__name__} needs restore()")

    def sync(self):
        """Gives all ranks the state of rank 0, and saves it."""
        raise NotImplementedError(f"{type(self).__name__} needs sync()")

    def reset(self):
        """Forgets what depends on the ranks of the job."""


class ObjectState(State):
    """Objects that can be pickled and copied, as attributes: ObjectState(epoch=0).epoch."""

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
