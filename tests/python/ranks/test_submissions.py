"""What may come in the middle of a submission: an interrupt, a handler, a fork."""

import gc
import os
import signal
import threading
import weakref

import numpy as np
import pytest

import muster.numpy as hvd
from muster import _library as lib
from muster import engine, requests, world

PATIENCE_SECONDS = 60


@pytest.fixture(autouse=True)
def two_ranks():
    if hvd.size() < 2:
        pytest.skip("needs two ranks")


class Owner:
    """Of an array."""

    def __init__(self):
        self.array = np.ones(4, np.float32)


def interrupted_after(function):
    """`function`, behind which a KeyboardInterrupt comes."""
    def call(*arguments):
        assert function(*arguments) == lib.OK
        raise KeyboardInterrupt

    return call


def begin_sum(name, owner):
    """A ticket; the sum is in the owner's array when it is done."""
    address = owner.array.ctypes.data
    return world.submit(lib.ALLREDUCE, f"allreduce.{name}",
                        [engine.Buffer(address, address, lib.FLOAT32, owner.array.shape, owner)])


def test_an_interrupt_behind_a_submission_frees_no_memory(monkeypatch):
    if hvd.rank() == 0:
        owner = Owner()
        array, alive = owner.array, weakref.ref(owner)
        with monkeypatch.context() as patch:
            patch.setattr(lib, "muster_engine_submit", interrupted_after(lib.muster_engine_submit))
            with pytest.raises(KeyboardInterrupt):
                begin_sum("interrupted", owner)
        del owner
        gc.collect()
        assert alive() is not None
    hvd.barrier()
    if hvd.rank() != 0:
        assert hvd.allreduce(np.ones(4, np.float32), name="interrupted", op=hvd.Sum).tolist() == [hvd.size()] * 4
    hvd.barrier()
    if hvd.rank() == 0:
        assert array.tolist() == [hvd.size()] * 4


def test_an_interrupt_behind_the_start_of_an_operation_frees_no_memory():
    communicator = world.communicator_of(range(hvd.size()))
    owner = Owner()
    array, alive = owner.array, weakref.ref(owner)
    arguments = (communicator, array.ctypes.data, array.ctypes.data, 4, lib.FLOAT32, lib.OP_SUM)
    if hvd.rank() == 0:
        with pytest.raises(KeyboardInterrupt):
            requests.start(interrupted_after(lib.muster_iallreduce), *arguments, keep=owner)
        del owner
        gc.collect()
        assert alive() is not None
    hvd.barrier()
    if hvd.rank() != 0:
        requests.start(lib.muster_iallreduce, *arguments, keep=owner).wait()
    requests.start(lib.muster_ibarrier, communicator, keep=None).wait()
    assert array.tolist() == [hvd.size()] * 4


def test_what_cannot_be_submitted_leaves_nothing():
    owner = Owner()
    alive = weakref.ref(owner)
    with pytest.raises(ValueError, match="Adasum is for allreduce"):
        world.submit(lib.BROADCAST, "wrong", [engine.Buffer(0, 0, lib.FLOAT32, (4,), owner)], op=hvd.Adasum)
    with pytest.raises(ValueError, match="has no data"):
        world.submit(lib.ALLREDUCE, "wrong", [engine.Buffer(0, 0, lib.FLOAT32, (4,), owner)])
    del owner
    gc.collect()
    assert alive() is None


def test_a_handler_may_submit_in_the_middle_of_a_submission(monkeypatch):
    """As a signal's handler, or the __del__ of something that is collected there, does."""
    submit, handled = lib.muster_engine_submit, []

    def handler():
        monkeypatch.setattr(lib, "muster_engine_submit", submit)
        handled.append(hvd.allreduce_async(np.ones(2), op=hvd.Sum))
        for call in (hvd.shutdown, lambda: hvd.remove_process_set(hvd.global_process_set)):
            with pytest.raises(ValueError, match="in the middle|interrupted an operation"):
                call()

    def called(*arguments):
        handler()
        return submit(*arguments)

    monkeypatch.setattr(lib, "muster_engine_submit", called)
    outer = hvd.allreduce_async(np.full(2, 3.0), op=hvd.Sum)
    assert outer != handled[0]
    assert hvd.synchronize(handled[0]).tolist() == [hvd.size()] * 2
    assert hvd.synchronize(outer).tolist() == [3 * hvd.size()] * 2


def in_child(function):
    """Whether `function` is true in a forked child; it is not, if it hangs."""
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE_SECONDS)
        try:
            os._exit(0 if function() else 1)
        finally:
            os._exit(2)
    return os.waitpid(child, 0)[1] == 0


def refuses(call):
    try:
        call()
    except ValueError:
        return True
    return False


def test_a_forked_child_leaves_what_runs_to_its_parent():
    """Also what other threads of the parent had locked as it was forked."""
    if hvd.rank() == 0:
        ticket, touched = begin_sum("parent", Owner()), []
        communicator = world.communicator_of([0])
        request = requests.start(lib.muster_ibarrier, communicator, keep=None)
        locked, go_on = threading.Event(), threading.Event()

        def hold():
            with ticket._lock, request._lock, world.current().lock, world.current().submit_lock:
                locked.set()
                go_on.wait()

        def dropped(kept):
            kept.__del__(is_done=touched.append, free=touched.append)
            return not touched

        thread = threading.Thread(target=hold)
        thread.start()
        try:
            locked.wait()
            assert in_child(lambda: dropped(ticket) and dropped(request))
            assert in_child(lambda: refuses(ticket.wait) and refuses(request.wait))
            assert in_child(lambda: refuses(lambda: hvd.allreduce(np.ones(2))) and refuses(hvd.barrier))
        finally:
            go_on.set()
            thread.join()
        request.wait()
    hvd.barrier()
    if hvd.rank() != 0:
        ticket = begin_sum("parent", Owner())
    ticket.wait()


def test_each_abandoned_operation_is_asked_by_its_own_functions():
    """Tickets of the engine and requests of communicators wait side by side."""
    calls, done = [], set()

    def functions_of(kind):
        return (lambda handle: calls.append((kind, "is done", handle)) or handle in done,
                lambda handle: calls.append((kind, "free", handle)))

    abandoned = engine.Abandoned()
    abandoned.add(1, None, *functions_of("ticket"))
    done.add(1)
    abandoned.add(2, None, *functions_of("request"))
    assert calls == [("ticket", "is done", 1), ("ticket", "is done", 1), ("ticket", "free", 1),
                     ("request", "is done", 2)]
