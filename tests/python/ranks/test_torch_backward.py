"""How muster.torch's operations go backward: every rank computes the gradients of all ranks by plain torch."""

import pytest
import torch
from torch_ranks import assert_same, everyone, own, values

import muster.torch as hvd


def tracked(tensor):
    return tensor.clone().requires_grad_()


def backward(result, gradient):
    """result.backward(gradient) after a product, so that gradients go through other operations, too."""
    (result * gradient).sum().backward()


def gradients(shape, seed=50):
    """Those of the results, of every rank."""
    return everyone(values, shape, seed=seed)


def mean(tensors):
    return sum(tensors) / len(tensors)


@pytest.mark.parametrize("op", [hvd.Sum, hvd.Average, hvd.Max])
def test_allreduce_goes_back_as_the_same_allreduce(op):
    given = tracked(own(everyone(values, (4, 3))))
    incoming = gradients((4, 3))
    backward(hvd.allreduce(given, op=op), own(incoming))
    expected = {hvd.Sum: sum(incoming), hvd.Average: mean(incoming), hvd.Max: torch.stack(incoming).amax(0)}[op]
    assert torch.allclose(given.grad, expected)


def test_scales_of_allreduce():
    given = tracked(own(everyone(values, (4,))))
    incoming = gradients((4,))
    backward(hvd.allreduce(given, name="scaled", op=hvd.Sum, prescale_factor=0.5, postscale_factor=8.0), own(incoming))
    assert_same(given.grad, sum(incoming) * 4)


def test_old_average():
    given = tracked(torch.ones(3))
    backward(hvd.allreduce(given, average=False), torch.ones(3))
    assert_same(given.grad, torch.full((3,), float(hvd.size())))


def test_compression_is_in_the_graph():
    given = tracked(own(everyone(values, (4,))))
    incoming = gradients((4,))
    backward(hvd.allreduce(given, op=hvd.Sum, compression=hvd.Compression.fp16), own(incoming))
    assert_same(given.grad, sum(incoming))


def test_grouped_allreduce():
    given = [tracked(own(everyone(values, (2,)))), tracked(own(everyone(values, (3, 2), seed=1)))]
    first, second = gradients((2,)), gradients((3, 2), seed=51)
    results = hvd.grouped_allreduce(given, op=hvd.Sum)
    ((results[0] * own(first)).sum() + (results[1] * own(second)).sum()).backward()
    assert_same(given[0].grad, sum(first))
    assert_same(given[1].grad, sum(second))


def test_a_result_of_a_group_that_is_not_used():
    given = [tracked(torch.ones(2)), tracked(torch.ones(3))]
    hvd.grouped_allreduce(given, op=hvd.Sum)[0].sum().backward()
    assert_same(given[0].grad, torch.full((2,), float(hvd.size())))
    assert_same(given[1].grad, torch.zeros(3))


def test_ragged_allgather_goes_back_as_the_own_rows_of_the_average():
    inputs = [values(rank, (rank + 1, 2)) for rank in range(hvd.size())]
    given = tracked(own(inputs))
    rows = sum(len(tensor) for tensor in inputs)
    incoming = gradients((rows, 2))
    backward(hvd.allgather(given, name="rows"), own(incoming))
    begin = sum(range(hvd.rank() + 1))
    assert torch.allclose(given.grad, mean(incoming)[begin:begin + hvd.rank() + 1])


def test_grouped_allgather():
    given = [tracked(values(hvd.rank(), (hvd.rank(), 2))), tracked(own(everyone(values, (3,))))]
    first = gradients((sum(range(hvd.size())), 2))
    second = gradients((3 * hvd.size(),), seed=51)
    results = hvd.grouped_allgather(given)
    ((results[0] * own(first)).sum() + (results[1] * own(second)).sum()).backward()
    begin = sum(range(hvd.rank()))
    assert torch.allclose(given[0].grad, mean(first)[begin:begin + hvd.rank()])
    assert torch.allclose(given[1].grad, mean(second)[3 * hvd.rank():3 * hvd.rank() + 3])


def test_broadcast_goes_back_to_the_root_only():
    incoming = gradients((3,))
    for root in range(hvd.size()):
        given = tracked(own(everyone(values, (3,))))
        backward(hvd.broadcast(given, root), own(incoming))
        expected = mean(incoming) if hvd.rank() == root else torch.zeros(3)
        assert torch.allclose(given.grad, expected)


def test_even_alltoall_goes_back_where_rows_came_from():
    size, rank = hvd.size(), hvd.rank()
    given = tracked(own(everyone(values, (size, 2))))
    incoming = gradients((size, 2))
    backward(hvd.alltoall(given), own(incoming))
    assert_same(given.grad, torch.stack([tensor[rank] for tensor in incoming]))


def test_uneven_alltoall_goes_back_where_rows_came_from():
    """Rank s sends r + 1 rows to rank r."""
    size, rank = hvd.size(), hvd.rank()
    splits = list(range(1, size + 1))
    given = tracked(values(rank, (sum(splits), 2)))
    incoming = [values(receiver, (size * (receiver + 1), 2), seed=50) for receiver in range(size)]
    result, received = hvd.alltoall(given, splits=splits)
    assert received.tolist() == [rank + 1] * size
    backward(result, own(incoming))
    expected = [incoming[r][rank * (r + 1):(rank + 1) * (r + 1)] for r in range(size)]
    assert_same(given.grad, torch.cat(expected))


@pytest.mark.parametrize("op", [hvd.Sum, hvd.Average])
@pytest.mark.parametrize("more", [0, 1])
def test_reducescatter_goes_back_as_an_allgather(op, more):
    size = hvd.size()
    given = tracked(own(everyone(values, (2 * size + more, 2))))
    result = hvd.reducescatter(given, op=op, prescale_factor=0.5)
    incoming = [values(rank, (2 + (rank < more), 2), seed=50) for rank in range(size)]
    backward(result, own(incoming))
    assert torch.allclose(given.grad, torch.cat(incoming) * (size if op == hvd.Sum else 1) * 0.5)


def test_grouped_reducescatter():
    size = hvd.size()
    given = [tracked(torch.ones(size)), tracked(torch.ones(2 * size, 2))]
    results = hvd.grouped_reducescatter(given, op=hvd.Sum)
    (results[0].sum() * (hvd.rank() + 1) + results[1].sum()).backward()
    assert_same(given[0].grad, torch.arange(1.0, size + 1) * size)
    assert_same(given[1].grad, torch.full((2 * size, 2), float(size)))


def test_results_can_be_changed_in_place():
    for operation in (lambda t: hvd.allreduce(t), lambda t: hvd.allgather(t), lambda t: hvd.broadcast(t, 0),
                      lambda t: hvd.alltoall(t), lambda t: hvd.reducescatter(t)):
        given = tracked(torch.ones(hvd.size(), 2))
        result = operation(given * 1)
        result += 1
        result.sum().backward()
        assert given.grad is not None and given.grad.shape == given.shape


def test_nothing_is_recorded_without_need():
    assert not hvd.allreduce(torch.ones(2)).requires_grad
    given = tracked(torch.ones(2))
    with torch.no_grad():
        assert not hvd.allgather(given).requires_grad
    hvd.allreduce_(given)
    assert given.grad_fn is None and given.requires_grad


def test_a_model_split_over_ranks():
    """Each rank has some columns of a layer's input: what the parts add up to, and its gradient, are the whole's."""
    whole = torch.nn.Linear(4 * hvd.size(), 3, bias=False)
    with torch.no_grad():
        whole.weight.copy_(values(0, whole.weight.shape, seed=9))
    data = values(0, (5, 4 * hvd.size()), seed=8)
    whole(data).square().mean().backward()
    part = slice(4 * hvd.rank(), 4 * hvd.rank() + 4)
    weight = tracked(whole.weight.detach()[:, part])
    output = hvd.allreduce(data[:, part] @ weight.t(), op=hvd.Sum)
    (output.square().mean() / hvd.size()).backward()  # every rank has the whole loss
    assert torch.allclose(weight.grad, whole.weight.grad[:, part])
