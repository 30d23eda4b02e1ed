"""muster.torch's SyncBatchNorm beside torch's batch normalization of the batches of all ranks together."""

import pytest
import torch
from torch_ranks import assert_same_on_all_ranks, noise

import muster.torch as hvd

KINDS = {2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm1d, 4: torch.nn.BatchNorm2d, 5: torch.nn.BatchNorm3d}


def inputs_of(sizes, rest, dtype=torch.float32, seed=0):
    """The batches of all ranks, with a mean that is not zero."""
    return [noise(rank, (size, 5, *rest), dtype, seed) * (rank + 1) + 3 for rank, size in enumerate(sizes)]


def pair(dimensions, **options):
    """(ours, torch's) with the same weights."""
    ours, exact = hvd.SyncBatchNorm(5, **options), KINDS[dimensions](5, **options)
    if ours.affine:
        for module in (ours, exact):
            with torch.no_grad():
                module.weight.copy_(torch.linspace(0.5, 2, 5))
                module.bias.copy_(torch.linspace(-1, 1, 5))
    return ours, exact


def check(ours, exact, batches, tolerance=1e-5):
    """Outputs, gradients and running statistics of a training step."""
    mine = batches[hvd.rank()].clone().requires_grad_()
    whole = torch.cat(batches).requires_grad_()
    output, expected = ours(mine), exact(whole)
    rows = [len(batch) for batch in batches]
    assert output.dtype == mine.dtype
    assert torch.allclose(output, expected.split(rows)[hvd.rank()], atol=tolerance)
    factor = noise(3, whole.shape, whole.dtype, seed=7)
    (output * factor.split(rows)[hvd.rank()]).sum().backward()
    (expected * factor).sum().backward()
    assert torch.allclose(mine.grad, whole.grad.split(rows)[hvd.rank()], atol=tolerance)
    if ours.affine:
        for name in ("weight", "bias"):
            own = getattr(ours, name).grad.clone()
            total = hvd.allreduce(own, op=hvd.Sum)
            assert torch.allclose(total, getattr(exact, name).grad, rtol=1e-4, atol=10 * tolerance)
    if ours.track_running_stats:
        assert torch.allclose(ours.running_mean, exact.running_mean, atol=tolerance)
        assert torch.allclose(ours.running_var, exact.running_var, rtol=1e-4, atol=tolerance)
        assert ours.num_batches_tracked == exact.num_batches_tracked
        assert_same_on_all_ranks([ours.running_mean, ours.running_var])


@pytest.mark.parametrize("rest", [(), (4,), (3, 2), (2, 2, 2)], ids=str)
def test_shapes(rest):
    ours, exact = pair(2 + len(rest))
    for step in range(3):
        check(ours, exact, inputs_of([3] * hvd.size(), rest, seed=step))
    ours.eval()
    exact.eval()
    data = inputs_of([2] * hvd.size(), rest, seed=9)[hvd.rank()]
    assert torch.allclose(ours(data), exact(data), atol=1e-5)


@pytest.mark.parametrize("options", [{"affine": False}, {"track_running_stats": False}, {"momentum": None},
                                     {"momentum": 0.7, "eps": 0.1}], ids=str)
def test_options(options):
    ours, exact = pair(4, **options)
    for step in range(2):
        check(ours, exact, inputs_of([2] * hvd.size(), (3, 3), seed=step))


def test_batches_of_different_sizes():
    ours, exact = pair(4)
    check(ours, exact, inputs_of([rank + 2 for rank in range(hvd.size())], (2, 3)))


@pytest.mark.skipif("hvd.size() == 1")
def test_a_rank_without_a_batch():
    ours, exact = pair(2)
    check(ours, exact, inputs_of([0] + [4] * (hvd.size() - 1), ()))


def test_double_precision():
    ours, exact = pair(3)
    check(ours.double(), exact.double(), inputs_of([4] * hvd.size(), (3,), torch.float64), tolerance=1e-12)


def test_bfloat16_input():
    """Computed in float32."""
    ours, exact = pair(2)
    batches = inputs_of([4] * hvd.size(), ())
    output = ours(batches[hvd.rank()].bfloat16()) if hvd.size() > 1 else ours(batches[0])
    expected = exact(torch.cat(batches)).split(4)[hvd.rank()]
    assert torch.allclose(output.float(), expected, atol=0.05)


def test_layers_in_a_network():
    """Several layers of equally many channels, and one input that needs no gradient."""
    torch.manual_seed(1)
    ours = torch.nn.Sequential(hvd.SyncBatchNorm(5), torch.nn.Linear(5, 5), hvd.SyncBatchNorm(5), torch.nn.Tanh())
    torch.manual_seed(1)
    exact = torch.nn.Sequential(torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 5), torch.nn.BatchNorm1d(5),
                                torch.nn.Tanh())
    batches = inputs_of([4] * hvd.size(), ())
    ours(batches[hvd.rank()]).square().sum().backward()
    exact(torch.cat(batches)).square().sum().backward()
    for mine, expected in zip(ours.parameters(), exact.parameters()):
        assert torch.allclose(hvd.allreduce(mine.grad, op=hvd.Sum), expected.grad, atol=1e-4)


def test_inputs_that_cannot_be():
    with pytest.raises(ValueError, match="needs an input|Expected more than 1 value"):
        hvd.SyncBatchNorm(5)(torch.ones(5))
    if hvd.size() > 1:
        with pytest.raises(ValueError, match="together have 1 values"):
            hvd.SyncBatchNorm(5)(torch.ones(1 if hvd.rank() == 0 else 0, 5))
