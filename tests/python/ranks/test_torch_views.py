"""Gradients that lie in memory which the ranks of a host share (muster.torch.buckets)."""

import copy
import gc

import pytest
import torch
from torch_ranks import assert_same_on_all_ranks, noise

import muster.torch as hvd
from muster.torch import buckets

RATE = 0.1


def network(dtype=torch.float32):
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3)).to(dtype)


def distributed(model, **options):
    return hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=RATE), model.named_parameters(), **options)


def loss_of(model, step, rank=None):
    rank = hvd.rank() if rank is None else rank
    dtype = next(model.parameters()).dtype
    return model(noise(rank, (4, 5), seed=step).to(dtype)).square().mean()


def shared_ranges():
    """[(first address, last address, resident KiB)] of this process's registered memory."""
    ranges = []
    with open("/proc/self/smaps", encoding="ascii") as lines:
        for line in lines:
            words = line.split()
            if "-" in words[0] and len(words) >= 5:
                is_ours = "muster-buffer" in line
                begin, end = (int(word, 16) for word in words[0].split("-"))
            elif words[0] == "Rss:" and is_ours:
                ranges.append((begin, end, int(words[1])))
    return ranges


def is_shared(tensor):
    return any(begin <= tensor.data_ptr() < end for begin, end, _ in shared_ranges())


def mean_gradients(model, step):
    """What one process gets that computes the batches of all ranks."""
    twin = copy.deepcopy(model)
    for parameter in twin.parameters():
        parameter.grad = None
    losses = [loss_of(twin, step, rank) for rank in range(hvd.size())]
    (sum(losses) / hvd.size()).backward()
    return [parameter.grad for parameter in twin.parameters()]


def check_step(model, optimizer, step, tolerance=1e-6):
    expected = mean_gradients(model, step)
    loss_of(model, step).backward()
    optimizer.synchronize()
    for parameter, exact in zip(model.parameters(), expected):
        assert torch.allclose(parameter.grad, exact, rtol=1e-4, atol=tolerance)
    with optimizer.skip_synchronize():
        optimizer.step()
    assert_same_on_all_ranks(list(model.parameters()))


@pytest.mark.parametrize("bucket_bytes", [1, 64, 100, 1 << 20])
@pytest.mark.parametrize("is_forgotten", [False, True])
def test_gradients_are_reduced_where_they_lie(bucket_bytes, is_forgotten, monkeypatch):
    monkeypatch.setattr(buckets, "_BUCKET_BYTES", bucket_bytes)
    model = network()
    optimizer = distributed(model)
    for step in range(4):
        optimizer.zero_grad(set_to_none=is_forgotten)
        check_step(model, optimizer, step)
        assert all(is_shared(parameter.grad) for parameter in model.parameters()) == (hvd.size() > 1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_types(dtype):
    model = network(dtype)
    optimizer = distributed(model)
    for step in range(3):
        optimizer.zero_grad()
        check_step(model, optimizer, step, tolerance=1e-6 if dtype == torch.float64 else 3e-2)
    assert is_shared(model[0].weight.grad) == (hvd.size() > 1)


def test_several_types_have_buckets_of_their_own():
    model = network()
    model[2].to(torch.float64)
    optimizer = distributed(model)

    def backward():
        inner = model[1](model[0](noise(hvd.rank(), (4, 5), seed=9)))
        model[2](inner.double()).square().mean().backward()

    for _ in range(3):
        optimizer.zero_grad()
        backward()
        optimizer.step()
        assert_same_on_all_ranks(list(model.parameters()))
    if hvd.size() > 1:
        assert is_shared(model[0].bias.grad) and is_shared(model[2].bias.grad)


def test_gradients_add_up_over_passes():
    model = network()
    optimizer = distributed(model, backward_passes_per_step=2)
    for step in range(3):
        expected = [a + b for a, b in zip(mean_gradients(model, step), mean_gradients(model, step + 10))]
        optimizer.zero_grad()
        loss_of(model, step).backward()
        loss_of(model, step + 10).backward()
        optimizer.synchronize()
        for parameter, exact in zip(model.parameters(), expected):
            assert torch.allclose(parameter.grad, exact, rtol=1e-4, atol=1e-6)
        with optimizer.skip_synchronize():
            optimizer.step()


def test_a_gradient_that_the_program_has_stays_the_parameters():
    model = network()
    optimizer = distributed(model)
    loss_of(model, 0).backward()
    held = model[0].weight.grad
    optimizer.step()
    for step in range(1, 4):
        expected = mean_gradients(model, step)
        optimizer.zero_grad(set_to_none=False)
        loss_of(model, step).backward()
        optimizer.step()
        assert model[0].weight.grad is held and not is_shared(held)
        assert torch.allclose(held, expected[0], rtol=1e-4, atol=1e-6)
        assert is_shared(model[0].bias.grad) == (hvd.size() > 1)
        assert_same_on_all_ranks(list(model.parameters()))
    del held
    optimizer.zero_grad(set_to_none=False)
    check_step(model, optimizer, 5)
    assert is_shared(model[0].weight.grad) == (hvd.size() > 1)


def test_parameters_without_a_gradient_have_zeros():
    model = network()
    optimizer = distributed(model)
    for step in range(3):
        optimizer.zero_grad(set_to_none=True)
        if step == 1:  # the first layer takes no part
            model[2](noise(hvd.rank(), (4, 7), seed=1)).square().mean().backward()
        else:
            loss_of(model, step).backward()
        optimizer.step()
        if step == 1 and hvd.size() > 1:
            assert not model[0].weight.grad.any() and not model[0].bias.grad.any()
        assert_same_on_all_ranks(list(model.parameters()))


def test_sparse_gradients_have_no_place():
    torch.manual_seed(1)
    table, layer = torch.nn.Embedding(6, 5, sparse=True), torch.nn.Linear(5, 2)
    names = [*table.named_parameters("table"), *layer.named_parameters("layer")]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([one for _, one in names], lr=RATE), names)
    for step in range(3):
        optimizer.zero_grad(set_to_none=True)
        layer(table(torch.tensor([hvd.rank() % 6, step]))).square().mean().backward()
        optimizer.step()
        assert table.weight.grad.is_sparse == (hvd.size() > 1 or table.weight.grad.is_sparse)
        assert_same_on_all_ranks([one for _, one in names])
    assert is_shared(layer.weight.grad) == (hvd.size() > 1)


def test_a_gradient_that_becomes_sparse_is_sparse_afterwards():
    torch.manual_seed(1)
    weight = torch.nn.Parameter(torch.ones(4, 2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=RATE), [("weight", weight)])
    for step in range(4):
        optimizer.zero_grad(set_to_none=True)
        rows = torch.nn.functional.embedding(torch.tensor([hvd.rank() % 4]), weight, sparse=step >= 2)
        rows.sum().backward()
        optimizer.step()
        assert weight.grad.is_sparse == (step >= 2)
        assert_same_on_all_ranks([weight])


@pytest.mark.parametrize("options, variable", [({"gradient_as_bucket_view": False}, None), ({}, "0"),
                                               ({"compression": hvd.Compression.bf16}, None), ({"groups": 1}, None)])
def test_turned_off(options, variable, monkeypatch):
    if variable is not None:
        monkeypatch.setenv("MUSTER_GRADIENT_VIEWS", variable)
    model = network()
    optimizer = distributed(model, **options)
    for step in range(3):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
        assert_same_on_all_ranks(list(model.parameters()))
    assert not any(is_shared(parameter.grad) for parameter in model.parameters())


def test_the_memory_is_free_when_the_model_is_gone():
    model = torch.nn.Linear(1000, 1000)
    optimizer = distributed(model)

    def resident():
        return sum(size for _, _, size in shared_ranges())

    before = resident()
    for _ in range(2):
        model(noise(0, (1, 1000))).sum().backward()
        optimizer.step()
    if hvd.size() > 1:
        assert is_shared(model.weight.grad) and resident() >= before + 3900
    del model, optimizer
    gc.collect()
    hvd.barrier()
    # Each rank has mapped the parts of the others, too.
    assert resident() < before + 1000
    hvd.barrier()


def test_gradients_outlive_the_world():
    """After shutdown() they keep their values; in the next world there are new buckets."""
    model = network()
    optimizer = distributed(model)
    for step in range(2):
        optimizer.zero_grad(set_to_none=False)
        check_step(model, optimizer, step)
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    hvd.shutdown()
    for parameter, value in zip(model.parameters(), expected):
        assert torch.equal(parameter.grad, value)
        parameter.grad.add_(1)
    hvd.init()
    for step in range(2, 5):
        optimizer.zero_grad(set_to_none=False)
        check_step(model, optimizer, step)
    assert is_shared(model[0].weight.grad) == (hvd.size() > 1)


def test_joined_ranks_have_no_buckets_yet():
    """Rank 0 has joined before the first step of the others: they get buckets when it is back."""
    model = network()
    optimizer = distributed(model)
    if hvd.rank() == 0:
        hvd.join()
    else:
        for step in range(2):
            optimizer.zero_grad(set_to_none=False)
            loss_of(model, step).backward()
            optimizer.step()
        hvd.join()
    hvd.broadcast_parameters(model.state_dict(), root_rank=hvd.size() - 1)
    for step in range(2, 4):
        optimizer.zero_grad(set_to_none=False)
        check_step(model, optimizer, step)
    assert is_shared(model[0].weight.grad) == (hvd.size() > 1)


@pytest.mark.parametrize("dtype", [None, torch.float64, torch.bfloat16, torch.int32])
def test_registered_tensors(dtype):
    tensor = hvd.empty_registered(200, 1000, dtype=dtype)
    assert tensor.shape == (200, 1000) and tensor.dtype == (dtype or torch.float32) and not tensor.any()
    assert is_shared(tensor)
    for step in range(3):
        tensor.fill_(hvd.rank() + step)
        hvd.allreduce_(tensor, op=hvd.Sum)
        assert (tensor == sum(range(hvd.size())) + step * hvd.size()).all()
    assert hvd.empty_registered((2, 0)).shape == (2, 0)
    with pytest.raises(ValueError, match="not supported"):
        hvd.empty_registered(3, dtype=torch.complex64)
