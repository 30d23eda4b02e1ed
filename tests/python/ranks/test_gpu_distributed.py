"""All of test_torch_distributed.py with tensors on a GPU that is none (emulated_gpu.py), and what goes through the host."""

import concurrent.futures
import ctypes
import gc
import os
import threading
import types

import pytest
import torch
import torch.distributed as dist
from emulated_gpu import gpu, on_gpu  # noqa: F401
from test_torch_distributed import *  # noqa: F401,F403
from test_torch_distributed import rank, size

from muster import _library as lib
from muster import requests
from muster.torch import streams
from muster.torch import tensors as memory
from muster.torch import work as work_module
from muster.torch.tensors import SideStream
from muster.torch.work import _gpus_of

pytestmark = pytest.mark.usefixtures("on_gpu")


@pytest.fixture
def started(monkeypatch):
    """Functions of libmuster by which operations were started."""
    functions, start = [], requests.start

    def recorded(function, *arguments, keep):
        functions.append(function)
        return start(function, *arguments, keep=keep)

    monkeypatch.setattr(requests, "start", recorded)
    return functions


def test_what_stays_on_the_gpu(started):
    whole, part = torch.ones(2 * size()), torch.ones(2)
    dist.all_reduce(part)
    dist.all_reduce_coalesced([part, whole])
    dist.broadcast(part, 0)
    dist.all_gather([torch.ones(2) for _ in range(size())], part)
    dist.all_gather_into_tensor(whole, part)
    dist.reduce_scatter(part, list(whole.clone().split(2)))
    dist.reduce_scatter_tensor(part, whole)
    dist.all_to_all_single(whole.clone(), whole)
    dist.all_to_all([torch.ones(r + rank()) for r in range(size())], [torch.ones(r + rank()) for r in range(size())])
    assert started == 3 * [lib.muster_allreduce_on_stream] + [lib.muster_broadcast_on_stream] + 2 * [
        lib.muster_allgather_on_stream] + 2 * [lib.muster_reduce_scatter_on_stream] + 2 * [
            lib.muster_alltoallv_on_stream]


def test_what_goes_through_the_host(started):
    dist.all_gather([torch.ones(r) for r in range(size())], torch.ones(rank()))
    dist.reduce(torch.ones(2), 0)
    assert started[0] == (lib.muster_iallgatherv if size() > 1 else lib.muster_allgather_on_stream)
    assert started[1] == lib.muster_ireduce


def test_a_group_has_one_gpu(monkeypatch):
    group = dist.new_group(range(size()))
    dist.all_reduce(torch.ones(1), group=group)
    monkeypatch.setattr(group._gpu, "device", "cuda:7")
    with pytest.raises(ValueError, match="works on cuda:7.*set_device"):
        dist.all_reduce(torch.ones(1), group=group)


def test_how_tensors_travel_is_told(monkeypatch):
    group = dist.new_group(range(size()))
    assert group.device_path is None and group.device_path_reason is None
    dist.all_reduce(torch.ones(1), group=group)
    assert group.device_path == os.environ["MUSTER_DEVICE_PATH"]
    assert not group.device_path_reason.startswith("not nccl")  # it was asked for
    monkeypatch.delenv("MUSTER_DEVICE_PATH")
    chosen = dist.new_group(range(size()))
    dist.all_reduce(torch.ones(1), group=chosen)
    assert chosen.device_path in ("ipc", "staged")
    assert chosen.device_path_reason.startswith("not nccl: "), chosen.device_path_reason


def test_a_future_knows_where_its_tensors_are():
    """torch refuses tensors of another GPU than a future has been told of."""
    def on(device):
        return types.SimpleNamespace(is_cuda=device != "cpu", device=device)

    assert _gpus_of([on("cpu")]) == [] and _gpus_of([]) == []
    assert _gpus_of([[on("cuda:1"), on("cpu")], [on("cuda:1")]]) == ["cuda:1"]


class Endless:
    """An operation that is under way until it is waited for."""

    under_way = 0

    def __init__(self):
        Endless.under_way += 1

    def done(self):
        return False

    def wait(self):
        Endless.under_way -= 1


def test_so_few_operations_wait_that_no_queue_is_full(monkeypatch):
    """CUDA's queues have room for some 1,024 entries, and each operation puts three into its stream."""
    group = dist.new_group(range(size()))
    dist.all_reduce(torch.ones(1), group=group)
    most = []

    def start(*_, keep):
        made = Endless()
        most.append(Endless.under_way)
        return made

    monkeypatch.setattr(requests, "start", start)
    for _ in range(600):
        group._gpu.start(lib.muster_allreduce_on_stream, keep=None)
    assert 3 * max(most) <= 1024 // 2


def test_a_stream_that_waits_is_nobody_elses(gpu, monkeypatch):
    """It is not one of torch's, and shares no queue with those of the program (0 to -3) nor with libmuster's (-5)."""
    given_back = []
    monkeypatch.setattr(streams, "as_torchs", lambda handle, device: (handle, device))
    monkeypatch.setattr(streams, "destroy_stream", lambda *what: given_back.append(what))
    made = [SideStream(torch.device("cuda:0")) for _ in range(40)]
    handles = [each.handle for each in made]
    assert len(set(handles)) == len(handles)
    for handle in handles:
        priority = ctypes.c_int()
        assert gpu.cuda.cuStreamGetPriority(ctypes.c_void_p(handle), ctypes.byref(priority)) == 0
        assert priority.value == -4
    del made
    gc.collect()
    assert sorted(given_back) == sorted((handle, 0, os.getpid()) for handle in handles)


def test_a_stream_is_given_back_by_a_thread_that_has_no_context(gpu):
    """Garbage is collected on any."""
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        threads.submit(streams.destroy_stream, streams.new_stream(0), 0, os.getpid()).result()


def test_what_the_driver_says_is_told(monkeypatch):
    monkeypatch.setenv("FAKE_CUDA_FAIL", "cuInit")
    with pytest.raises(RuntimeError, match=r"cuInit: error 100 of the CUDA driver \(made to fail by a test\)"):
        streams.new_stream(77)


def test_who_waits_second_comes_behind_what_the_first_has_copied(monkeypatch):
    """A future's result is copied in a stream of the thread that completes it."""
    calls = []

    class Mark:
        def __init__(self, device):
            calls.append(("mark", device, threading.get_ident()))

        def follow(self):
            calls.append(("follow", threading.get_ident()))

    monkeypatch.setattr(work_module, "_gpus_of", lambda result: ["cpu"])  # a future takes no GPU without torch's CUDA
    monkeypatch.setattr(memory, "Mark", Mark)
    outputs = [torch.zeros(2) for _ in range(size())]
    work = dist.all_gather(outputs, torch.ones(2), async_op=True)
    finish = work._finish
    work._finish = lambda: calls.append("copied") or finish()
    thread = threading.Thread(target=work.wait)
    thread.start()
    thread.join()
    assert work.wait()
    me = threading.get_ident()
    assert calls == ["copied", ("mark", "cpu", thread.ident), ("follow", thread.ident), ("follow", me)]


def test_who_waits_for_what_was_done_in_place_has_nothing_to_follow(gpu, monkeypatch):
    """A mark is an event of CUDA's."""
    marks = []
    monkeypatch.setattr(work_module, "_gpus_of", lambda result: ["cpu"])
    monkeypatch.setattr(memory, "Mark", lambda device: marks.append(device) or types.SimpleNamespace(follow=list))
    whole, other, part = (gpu.copy_of(torch.ones(count)) for count in (2 * size(), 2 * size(), 2))
    dist.all_reduce(whole)
    dist.broadcast(part, 0)
    dist.reduce_scatter_tensor(part, whole)
    dist.all_to_all_single(other, whole)
    assert not marks
    dist.all_reduce(torch.zeros(4, 2)[:, 0])
    assert len(marks) == 1


def test_what_is_copied_from_is_not_used_again_too_soon(monkeypatch):
    """It may be of another stream than that of the thread that copies it."""
    taken = []
    monkeypatch.setattr(memory, "use_in_stream", lambda tensor: taken.append(tensor.data_ptr()))
    outputs = [torch.zeros(2) for _ in range(size())]
    dist.all_gather(outputs, torch.ones(2))
    assert len(set(taken)) == size()
    strided = torch.zeros(4, 2)[:, 0]
    dist.all_reduce(strided)
    assert len(taken) == size() + 1
