"""All of test_torch_distributed.py with tensors on a GPU that is none (emulated_gpu.py), and what goes through the host."""

import types

import pytest
import torch
import torch.distributed as dist
from emulated_gpu import EmulatedGpu
from test_torch_distributed import *  # noqa: F401,F403
from test_torch_distributed import rank, size

from muster import _library as lib
from muster import requests
from muster.torch.work import _gpus_of


@pytest.fixture(scope="module")
def gpu():
    return EmulatedGpu()


@pytest.fixture(autouse=True)
def on_gpu(gpu, monkeypatch):
    gpu.emulate(monkeypatch)


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


def test_a_future_knows_where_its_tensors_are():
    """torch refuses tensors of another GPU than a future has been told of."""
    def on(device):
        return types.SimpleNamespace(is_cuda=device != "cpu", device=device)

    assert _gpus_of([on("cpu")]) == [] and _gpus_of([]) == []
    assert _gpus_of([[on("cuda:1"), on("cpu")], [on("cuda:1")]]) == ["cuda:1"]
