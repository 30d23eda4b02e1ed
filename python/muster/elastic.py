"""Horovod's elastic API, without a framework: state that ranks save, restore, and make the same on all ranks.

In an elastic job (HOROVOD_ELASTIC=1, see next_world.py) the ranks change while the function of run() runs. Other jobs
keep the ranks that they started with.
"""

import contextlib
import copy
import functools
import queue

import numpy as np

from muster import next_world, world
from muster.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from muster.notifications import HostUpdateResult, notifications
from muster.numpy import Max, allreduce, broadcast_object


def run(func):
    """Returns a function that makes the state the same on all ranks and then calls `func(state, ...)`.

    In an elastic job it calls `func` again whenever the ranks have changed. If a rank has ended, `func` fails with a
    HorovodInternalError, and the state returns to its last commit first. If the hosts have changed, a commit raises
    HostsUpdatedInterrupt. In both cases this process keeps its memory and joins the next world. SystemExit: it has been
    removed from the job.
    In other jobs, a rank that ends lets the call end with a HorovodInternalError, and the state is not restored. So the
    script must write checkpoints."""
    return run_fn(func, reset_world)


def run_fn(func, reset):
    """Returns run(func). `reset()` leaves the world of this process and joins the next one."""
    return run_translated(func, reset, contextlib.nullcontext)


def run_translated(func, reset, translated):
    """Returns run_fn(func, reset) for a framework that has its own error for a failed collective. translated() is a
    context that turns this error into HorovodInternalError. It is used in elastic jobs only."""
    @functools.wraps(func)
    def wrapper(state, *args, **kwargs):
        if next_world.is_elastic():
            with notifications.listening(state):
                return _run_elastic(lambda: func(state, *args, **kwargs), reset, state, translated)
        state.sync()
        return func(state, *args, **kwargs)

    return wrapper


def reset_world():
    """Leaves the world of this process and joins the next one."""
    world.shutdown()
    world.init()


def _run_elastic(call, reset, state, translated):
    needs_sync = True
    while True:
        try:
            with translated():
                if _any_rank(needs_sync):
                    state.sync()
                return call()
        except HorovodInternalError:
            state.restore()
            needs_sync = True
        except HostsUpdatedInterrupt as interrupt:
            needs_sync = not interrupt.skip_sync
        _reset_until_it_holds(reset, state, translated)


def _any_rank(needs_sync):
    """Returns True if any rank needs the state of rank 0. In Horovod each rank decides alone. Then new ranks wait for
    a broadcast in which the others do not take part."""
    votes = allreduce(np.array([needs_sync], dtype=np.int8), op=Max, name="elastic.needs_sync")
    return bool(votes[0])


def _reset_until_it_holds(reset, state, translated):
    while True:
        try:
            with translated():
                reset()
                notifications.publish()
                state.on_reset()
                return
        except HorovodInternalError:
            continue  # a rank has ended meanwhile: reset() waits for the world after that


def _broadcast(obj):
    return broadcast_object(obj, 0, name="elastic.objects")


class State:
    """The state from which a training can continue.

    bcast_object: a function that returns the object of rank 0 on all ranks. get_rank is not used."""

    def __init__(self, bcast_object=None, get_rank=None):
        del get_rank
        self._bcast_object = bcast_object or _broadcast
        self._host_messages = queue.Queue()
        self._last_updated_timestamp = 0
        self._reset_callbacks = []

    def register_reset_callbacks(self, callbacks):
        """Adds functions without arguments. on_reset() calls them."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self):
        """Forgets reports of changed hosts, and calls reset() and the callbacks. run() calls it when this process has
        joined another world."""
        self._host_messages = queue.Queue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp, update_res):
        """Takes the report that the hosts have changed. check_host_updates() handles it. Thread-safe."""
        self._host_messages.put((timestamp, update_res))

    def commit(self):
        """Calls save() and check_host_updates()."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self):
        """Raises HostsUpdatedInterrupt on all ranks if rank 0 knows that the hosts have changed. A collective: all
        ranks must call it at the same step. In a job that is not elastic the hosts never change, and it does
        nothing."""
        if not next_world.is_elastic():
            return
        before = latest = self._last_updated_timestamp
        changes = HostUpdateResult.no_update
        while not self._host_messages.empty():
            timestamp, change = self._host_messages.get()
            if timestamp > latest:
                latest = timestamp
                changes |= change
        before, self._last_updated_timestamp, changes = self._bcast_object((before, latest, changes))
        if self._last_updated_timestamp > before:
            raise HostsUpdatedInterrupt(changes == HostUpdateResult.removed)

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
    """Keeps objects that can be pickled and copied, as attributes: ObjectState(epoch=0).epoch. The first two arguments
    are those of State."""

    def __init__(self, bcast_object=None, get_rank=None, **kwargs):
        super().__init__(bcast_object, get_rank)
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
        values = self._bcast_object({name: getattr(self, name) for name in self._names})
        for name, value in values.items():
            setattr(self, name, value)
        ObjectState.save(self)
