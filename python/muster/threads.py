"""Horovod's small functions for threads. Scripts and tests import them from horovod.runner.util.threads."""

import contextlib
import threading


def in_thread(target, args=(), name=None, daemon=True, silent=False):
    """Starts target(*args) in a thread and returns the thread. With `silent` the thread ignores exceptions."""
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {type(args)}, for a single argument use (arg,)")

    def call():
        with contextlib.suppress(Exception) if silent else contextlib.nullcontext():
            target(*args)

    thread = threading.Thread(target=call, name=name, daemon=daemon)
    thread.start()
    return thread


def on_event(event, func, args=(), stop=None, check_stop_interval_s=1.0, daemon=True, silent=False):
    """Calls func(*args) in a thread when `event` is set. Does not call it if `stop` is set before. The thread polls
    `stop` every `check_stop_interval_s`. ValueError: `event` is None, or nothing could end the thread, because it is
    not a daemon and has no `stop`."""
    if event is None:
        raise ValueError("event is None: pass an event to wait for")
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {type(args)}, for a single argument use (arg,)")
    if stop is None and not daemon:
        raise ValueError("a thread that is not a daemon needs an event `stop`")

    def wait():
        while not event.wait(None if stop is None else check_stop_interval_s):
            if stop.is_set():
                return
        if stop is None or not stop.is_set():
            func(*args)

    return in_thread(wait, daemon=daemon, silent=silent)
