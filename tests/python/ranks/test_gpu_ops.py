"""All of test_torch_ops.py and test_torch_backward.py with tensors on a GPU that is none (emulated_gpu.py), and where their
results lie. That something was copied in the wrong order is seen here; what a GPU does is not."""

import threading

import pytest
import torch
from emulated_gpu import gpu  # noqa: F401
from test_torch_backward import *  # noqa: F401,F403
from test_torch_ops import *  # noqa: F401,F403
from torch_ranks import assert_same, own, values

import muster.torch as hvd
from muster import _library as lib
from muster.torch import streams
from muster.torch import tensors as memory
from muster.torch.repeated import Repeated
from muster.torch.results import Results
from muster.torch.tensors import new_idle

del test_a_device_that_libmuster_does_not_know  # noqa: F821  It is about a device that is no GPU.


@pytest.fixture(autouse=True)
def on_gpu(gpu, monkeypatch):  # noqa: F811
    def refuse(_):
        raise AssertionError("a tensor of a GPU went to the host")

    monkeypatch.setattr(memory, "reading", refuse)
    gpu.emulate(monkeypatch)


@pytest.fixture
def asked(gpu, monkeypatch):
    """(shape, thread) of what was asked for when the sizes of results were known."""
    made = []

    def new_idle(shape, dtype, device):
        made.append((tuple(shape), threading.get_ident()))
        return gpu.new(shape, dtype, device)

    monkeypatch.setattr(memory, "new_idle", new_idle)
    return made


def ragged():
    """No rank's rows are the mean of all."""
    return [values(rank, (rank * rank + 1, 3)) for rank in range(hvd.size())]


def test_results_lie_on_the_gpu(gpu, asked):
    size = hvd.size()
    even = torch.ones(size, 2)
    results = [hvd.allgather(even), hvd.alltoall(even), hvd.reducescatter(torch.ones(size + 1, 2)),
               *hvd.grouped_allgather([even, even.double()]), *hvd.grouped_reducescatter([even, even])]
    assert all(gpu.has(result) for result in results)
    assert not asked  # there was room already


def test_room_for_results_of_other_sizes_is_asked_for(gpu, asked):
    inputs = ragged()
    result = hvd.allgather(own(inputs), name="asked")
    assert gpu.has(result)
    assert_same(result, torch.cat(inputs))
    if hvd.size() == 1:
        assert not asked
        return
    [(shape, thread)] = asked
    assert shape == result.shape
    assert thread != threading.get_ident()  # libmuster's
    splits = [rank + hvd.rank() for rank in range(hvd.size())]
    result, received = hvd.alltoall(torch.ones(sum(splits), 2), splits=splits)
    assert gpu.has(result) and received.sum() == len(result)
    assert asked[1][0] == result.shape


@pytest.mark.skipif("hvd.size() == 1")
def test_ranks_may_call_in_any_order(asked):
    """An operation that waits for the size of its result keeps no other from being submitted."""
    inputs = ragged()
    order = range(5) if hvd.rank() % 2 else range(4, -1, -1)
    handles = {i: hvd.allgather_async(own(inputs) + i, name=f"any.{i}") for i in order}
    for i in range(5):
        assert_same(hvd.synchronize(handles[i]), torch.cat(inputs) + i)
    assert len(asked) == 5


def test_other_threads_go_on_while_the_driver_is_called(monkeypatch):
    """A call of the driver waits where the GPU's queue is full; what empties it may need the GIL."""
    keeps_gil = 4  # FUNCFLAG_PYTHONAPI of ctypes
    submitted = []
    submit = lib.muster_engine_submit_on_gpu
    assert not submit._flags_ & keeps_gil
    monkeypatch.setattr(lib, "muster_engine_submit_on_gpu", lambda *given: submitted.append(1) or submit(*given))
    monkeypatch.setattr(lib, "muster_engine_submit", None)
    hvd.allgather(torch.ones(2))
    Repeated("beside", hvd.global_process_set, hvd.Sum).begin(memory.copy_of(torch.ones(2)))()
    assert len(submitted) == 2


class Stream:
    """Of torch.cuda."""

    def __init__(self, handle, device):
        self.handle, self.device, self.calls = handle, device, []

    def __enter__(self):
        self.calls.append("enter")

    def __exit__(self, *_):
        self.calls.append("exit")

    def synchronize(self):
        self.calls.append("synchronize")


def test_memory_that_is_asked_for_is_of_a_stream_of_its_own(monkeypatch):
    """What torch would do on a GPU is not seen here, but what it is asked for."""
    made, device = [], torch.device("cuda:0")

    def as_torchs(handle, device):
        made.append(Stream(handle, device))
        return made[-1]

    monkeypatch.setattr(streams, "as_torchs", as_torchs)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: stream)
    monkeypatch.setattr(memory, "new", lambda *like: made[0].calls.append(like) or like)
    for _ in range(2):
        assert new_idle((3,), torch.int8, device) == ((3,), torch.int8, device)
    [stream] = made
    assert stream.device == device and stream.handle  # the driver's, not torch's
    assert stream.calls == 2 * ["enter", ((3,), torch.int8, device), "exit", "synchronize"]


def test_why_there_is_no_memory_is_said(monkeypatch, capfd):
    def full(*_):
        raise RuntimeError("CUDA out of memory")

    results = Results([torch.ones(2)], lambda tensor: None)
    monkeypatch.setattr(memory, "new_idle", full)
    assert results.allocate(0, 8) is None
    assert "CUDA out of memory" in capfd.readouterr().err


def test_without_a_driver_the_host_does_it(gpu, monkeypatch):
    monkeypatch.undo()
    gpu.emulate(monkeypatch)
    monkeypatch.setattr(memory, "_has_driver", lambda: False)
    inputs = ragged()
    result = hvd.allgather(own(inputs))
    assert not gpu.has(result)
    assert_same(result, torch.cat(inputs))


def test_tensors_of_both_go_through_the_host(gpu, monkeypatch):
    monkeypatch.undo()
    gpu.emulate(monkeypatch)
    monkeypatch.setattr(memory, "is_on_gpu", gpu.has)
    monkeypatch.setattr(memory, "is_in_place", torch.Tensor.is_contiguous)  # also those of the host
    there, here = gpu.copy_of(torch.ones(2, 2)), torch.ones(1)
    gpu.wait()  # as tensor.cpu() does on a GPU
    first, second = hvd.grouped_allgather([there, here])
    assert_same(first, torch.ones(2 * hvd.size(), 2))
    assert_same(second, torch.ones(hvd.size()))
