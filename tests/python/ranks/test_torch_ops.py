"""muster.torch's operations beside plain torch: every rank computes what all ranks have."""

import functools
import operator
import os

import pytest
import torch
from torch_ranks import (FLOATS, INTEGERS, TYPES, adasum_of, assert_same, assert_same_on_all_ranks, everyone, noise,
                         own, values)

import muster.torch as hvd

SHAPES = [(), (1,), (7,), (0,), (3, 5), (2, 0, 4), (1024, 33)]


def total(tensors):
    return functools.reduce(operator.add, tensors)


# --- what is where ---------------------------------------------------------------------------------------------------

def test_values_of_constants_are_those_of_horovod():
    assert (hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product) == (0, 1, 2, 3, 4, 5)


def test_topology():
    assert hvd.is_initialized()
    assert 0 <= hvd.rank() < hvd.size()
    assert (hvd.local_rank(), hvd.local_size()) == (hvd.rank(), hvd.size())
    assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1)
    assert hvd.is_homogeneous()
    assert hvd.mpi_ops.is_homogeneous()


def test_build_information():
    assert hvd.gloo_built() and hvd.gloo_enabled()
    assert hvd.nccl_built() == 0 or hvd.cuda_built()
    assert not any(ask() for ask in (hvd.mpi_built, hvd.mpi_enabled, hvd.mpi_threads_supported, hvd.ddl_built,
                                     hvd.ccl_built, hvd.rocm_built))


# --- allreduce -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sum(dtype, shape):
    inputs = everyone(values, shape, dtype)
    given = own(inputs).clone()
    assert_same(hvd.allreduce(given, op=hvd.Sum), total(inputs))
    assert_same(given, own(inputs))
    assert hvd.allreduce_(given, op=hvd.Sum) is given
    assert_same(given, total(inputs))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("op", ["Min", "Max", "Product"])
def test_other_reductions(dtype, op):
    inputs = everyone(values, (6, 4), dtype)
    stacked = torch.stack([tensor.to(torch.float64) for tensor in inputs])
    expected = {"Min": lambda: stacked.amin(0), "Max": lambda: stacked.amax(0), "Product": lambda: stacked.prod(0)}
    assert_same(hvd.allreduce(own(inputs), op=getattr(hvd, op)), expected[op]().to(dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_average_is_the_default(dtype):
    inputs = everyone(noise, (65,), torch.float64)
    exact = total(inputs) / hvd.size()
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 1e-6, torch.float64: 1e-14}[dtype]
    for average in (hvd.allreduce(own(inputs).to(dtype)), hvd.allreduce(own(inputs).to(dtype), op=hvd.Average),
                    hvd.allreduce(own(inputs).to(dtype), average=True)):
        assert average.dtype == dtype
        assert torch.allclose(average.double(), exact, rtol=tolerance, atol=tolerance)
        assert_same_on_all_ranks([average])


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_average_of_integers_is_truncated(dtype):
    inputs = everyone(values, (50,), dtype, seed=1)
    expected = torch.div(total([tensor.to(torch.int64) for tensor in inputs]), hvd.size(), rounding_mode="trunc")
    assert_same(hvd.allreduce(own(inputs)), expected.to(dtype))


def test_there_is_no_average_of_bool():
    with pytest.raises(ValueError, match="bool has no average"):
        hvd.allreduce(torch.tensor([True]))


def test_average_false_is_a_sum():
    inputs = everyone(values, (3,))
    assert_same(hvd.allreduce(own(inputs), average=False), total(inputs))
    assert_same(hvd.allreduce_(own(inputs).clone(), average=False), total(inputs))


def test_op_and_average_exclude_each_other():
    for call in (hvd.allreduce, hvd.allreduce_, hvd.allreduce_async, hvd.allreduce_async_):
        with pytest.raises(ValueError, match="and not both"):
            call(torch.ones(1), average=True, op=hvd.Sum)


def test_an_unknown_op():
    with pytest.raises(ValueError, match="op=17"):
        hvd.allreduce(torch.ones(1), op=17)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_scales(dtype):
    inputs = everyone(values, (9,), dtype)
    scaled = hvd.allreduce(own(inputs), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
    assert_same(scaled, total([tensor * 0.5 for tensor in inputs]) * 4)
    average = hvd.allreduce(own(inputs), prescale_factor=0.25, postscale_factor=4.0 * hvd.size())
    assert torch.allclose(average.float(), total(inputs).float())


def an_odd_scale():
    """(equal inputs of all ranks, a factor that no binary fraction has)."""
    return torch.linspace(-100, 100, 289), 0.1915194503788923


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32, torch.float64], ids=str)
def test_scaled_inputs_are_rounded_before_they_are_added(dtype):
    values, factor = an_odd_scale()
    scaled_in = dtype if dtype.is_floating_point else torch.float64
    scaled = (values.to(dtype).to(scaled_in) * torch.tensor(factor, dtype=scaled_in)).to(dtype)
    given = hvd.allreduce(values.to(dtype), op=hvd.Sum, prescale_factor=factor)
    assert torch.equal(given, total([scaled] * hvd.size()))


def test_scaled_float16_is_rounded_once():
    """Horovod rounds each scaled input and each sum, and is farther from the exact sum on three ranks and more."""
    values, factor = an_odd_scale()
    halves = values.half()
    exact = halves.double() * factor * hvd.size()
    given = hvd.allreduce(halves, op=hvd.Sum, prescale_factor=factor)
    assert torch.equal(given, (halves.float() * torch.tensor(factor) * hvd.size()).half())
    scaled = (halves.float() * torch.tensor(factor)).half()
    rounded_often = total([scaled] * hvd.size())
    assert (given.double() - exact).abs().sum() <= (rounded_often.double() - exact).abs().sum()


class FarTensor(torch.Tensor):
    """A tensor of a device of which only torch's copies are known. It stands in for one of xpu: it has no memory of its
    own, and every other operation raises."""

    @staticmethod
    def __new__(cls, elements):
        made = torch.Tensor._make_wrapper_subclass(cls, elements.shape, dtype=elements.dtype, device="xpu",
                                                   strides=elements.stride())
        made.elements = elements
        return made

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        # These two here, because torch itself would look for the driver.
        if function is torch.Tensor.new_empty:
            return cls(torch.empty(args[1], dtype=args[0].dtype))
        if function is torch.Tensor.copy_ and not isinstance(args[1], cls):
            args[0].elements.copy_(args[1])
            return args[0]
        with torch._C.DisableTorchFunction():
            return function(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        aten = torch.ops.aten
        if operation is aten._to_copy.default and kwargs["device"] == torch.device("cpu"):
            return args[0].elements.clone()
        if operation is aten.detach.default:
            return cls(args[0].elements)
        raise NotImplementedError(f"{operation} of a device that only copies")


def test_a_device_that_libmuster_does_not_know():
    rank, size = hvd.rank(), hvd.size()
    far = FarTensor(torch.tensor([[1.0, rank], [2.0, 3.0]]))
    summed = [[1.0 * size, sum(range(size))], [2.0 * size, 3.0 * size]]
    assert hvd.allreduce(far, op=hvd.Sum).elements.tolist() == summed
    assert hvd.grouped_allreduce([far, far], op=hvd.Sum)[1].elements.tolist() == summed
    assert hvd.allgather(far).elements.tolist() == [row for one in range(size) for row in ([1.0, one], [2.0, 3.0])]
    assert hvd.broadcast(far, size - 1).elements.tolist() == [[1.0, size - 1], [2.0, 3.0]]
    assert far.elements.tolist() == [[1.0, rank], [2.0, 3.0]]
    assert hvd.allreduce_(far, op=hvd.Sum) is far and far.elements.tolist() == summed
    every_second = FarTensor(torch.tensor([[1.0, rank], [2.0, 3.0]])[:, 1])
    assert hvd.broadcast_(every_second, 0) is every_second and every_second.elements.tolist() == [0.0, 3.0]


def test_not_contiguous():
    """Every second column of a matrix, a transposed one, and one that is expanded."""
    inputs = everyone(values, (6, 8))
    expected = total(inputs)
    mine = own(inputs).clone()
    assert_same(hvd.allreduce(mine[:, ::2], op=hvd.Sum), expected[:, ::2])
    assert_same(hvd.allreduce(mine.t(), op=hvd.Sum), expected.t())
    assert_same(hvd.allreduce(mine[:1].expand(3, 8), op=hvd.Sum), expected[:1].expand(3, 8))
    hvd.allreduce_(mine[:, 1::2], op=hvd.Sum)
    assert_same(mine[:, 1::2], expected[:, 1::2])
    assert_same(mine[:, ::2], own(inputs)[:, ::2])


def test_memory_formats_may_differ_between_ranks():
    inputs = everyone(values, (2, 3, 4, 5))
    mine = own(inputs).clone()
    if hvd.rank() % 2 == 0:
        mine = mine.contiguous(memory_format=torch.channels_last)
    hvd.allreduce_(mine, op=hvd.Sum)
    assert torch.equal(mine, total(inputs))


def test_in_place_without_a_copy():
    tensor = torch.ones(100)
    address = tensor.data_ptr()
    part = tensor[10:20]
    assert hvd.allreduce_(part, op=hvd.Sum).data_ptr() == address + 40
    assert tensor.sum() == 90 + 10 * hvd.size()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_and_infinity_pass_through(dtype):
    special = torch.tensor([float("nan"), float("inf"), float("-inf"), 1.0], dtype=dtype)
    given = special if hvd.rank() == hvd.size() - 1 else torch.ones(4, dtype=dtype)
    result = hvd.allreduce(given, op=hvd.Sum)
    assert result[0].isnan() and result[1] == float("inf") and result[2] == float("-inf") and result[3] == hvd.size()
    gathered = hvd.allgather(given)
    assert gathered[-4].isnan() and gathered[-3] == float("inf")
    assert hvd.broadcast(given, hvd.size() - 1)[0].isnan()


def test_infinities_that_cancel():
    given = torch.tensor([float("inf") if hvd.rank() % 2 == 0 else float("-inf")])
    result = hvd.allreduce(given, op=hvd.Sum)
    assert result.isnan() if hvd.size() > 1 else result == float("inf")


def test_compression():
    inputs = everyone(noise, (500,))
    expected = total(inputs) / hvd.size()
    for compression, tolerance in ((hvd.Compression.none, 1e-6), (hvd.Compression.fp16, 2e-3),
                                   (hvd.Compression.bf16, 2e-2)):
        result = hvd.allreduce(own(inputs), compression=compression)
        assert result.dtype == torch.float32
        assert torch.allclose(result, expected, atol=tolerance, rtol=tolerance)
    whole = everyone(values, (5,), torch.int32)
    assert_same(hvd.allreduce(own(whole), op=hvd.Sum, compression=hvd.Compression.fp16), total(whole))


def test_a_compressor_of_the_user():
    class Halves:
        @staticmethod
        def compress(tensor):
            return tensor[::2].contiguous(), tensor.shape

        @staticmethod
        def decompress(tensor, ctx):
            return torch.repeat_interleave(tensor, 2)[:ctx[0]]

    inputs = everyone(values, (7,))
    result = hvd.allreduce(own(inputs), op=hvd.Sum, compression=Halves)
    assert_same(result, torch.repeat_interleave(total(inputs)[::2], 2)[:7])


def test_handles():
    handle = hvd.allreduce_async(torch.ones(4), op=hvd.Sum)
    assert isinstance(handle, int)
    assert_same(hvd.synchronize(handle), torch.full((4,), float(hvd.size())))
    assert hvd.synchronize(handle) is None
    with pytest.raises(ValueError, match="handle"):
        hvd.poll(handle)


def test_poll_becomes_true():
    tensor = torch.ones(4)
    handle = hvd.allreduce_async_(tensor, op=hvd.Sum)
    while not hvd.poll(handle):
        os.sched_yield()
    assert hvd.synchronize(handle) is tensor


def test_many_in_another_order_on_each_rank():
    inputs = everyone(values, (200,))
    order = torch.randperm(200, generator=torch.Generator().manual_seed(hvd.rank())).tolist()
    handles = {i: hvd.allreduce_async(own(inputs)[i:i + 1], name=f"order.{i}", op=hvd.Sum) for i in order}
    assert_same(torch.cat([hvd.synchronize(handles[i]) for i in range(200)]), total(inputs))


def test_a_tensor_may_be_forgotten_before_it_is_done():
    for i in range(50):
        hvd.allreduce_async_(torch.ones(10_000), name=f"forgotten.{i}")
    assert hvd.allreduce(torch.ones(1)) == 1


# --- grouped ---------------------------------------------------------------------------------------------------------

def test_grouped_allreduce():
    inputs = [everyone(values, shape, seed=i) for i, shape in enumerate(((3,), (), (2, 4), (0, 2)))]
    given = [own(tensors).clone() for tensors in inputs]
    for result, tensors in zip(hvd.grouped_allreduce(given, op=hvd.Sum), inputs):
        assert_same(result, total(tensors))
    results = hvd.grouped_allreduce_(given, op=hvd.Sum, prescale_factor=2.0)
    for result, mine, tensors in zip(results, given, inputs):
        assert result is mine
        assert_same(result, total(tensors) * 2)
    compressed = hvd.grouped_allreduce([own(tensors) for tensors in inputs], compression=hvd.Compression.fp16)
    assert all(torch.allclose(c, total(t) / hvd.size(), rtol=1e-2) for c, t in zip(compressed, inputs))
    waited = hvd.synchronize(hvd.grouped_allreduce_async([own(tensors) for tensors in inputs], op=hvd.Max))
    assert_same(waited[0], torch.stack(inputs[0]).amax(0))


def test_grouped_of_different_types():
    inputs = [everyone(values, (4,), dtype) for dtype in (torch.float32, torch.int64, torch.bfloat16)]
    for result, tensors in zip(hvd.grouped_allreduce([own(tensors) for tensors in inputs], op=hvd.Sum), inputs):
        assert_same(result, total(tensors))


def test_grouped_needs_a_list_of_tensors():
    with pytest.raises(ValueError, match="list of tensors"):
        hvd.grouped_allreduce_(torch.ones(3))
    with pytest.raises(ValueError, match="at least one"):
        hvd.grouped_allreduce([])


# --- the other operations --------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_allgather(dtype):
    inputs = everyone(values, (3, 2), dtype)
    assert_same(hvd.allgather(own(inputs)), torch.cat(inputs))


def test_ragged_allgather():
    """Also of a rank without rows."""
    inputs = [values(rank, (2 * rank, 3)) for rank in range(hvd.size())]
    assert_same(hvd.allgather(own(inputs)), torch.cat(inputs))
    assert_same(hvd.synchronize(hvd.allgather_async(own(inputs)[:, :1])), torch.cat(inputs)[:, :1])


def test_allgather_of_nothing():
    assert_same(hvd.allgather(torch.empty(0, 4)), torch.empty(0, 4))


def test_grouped_allgather():
    inputs = [everyone(values, (2, 2), seed=1), [values(rank, (rank,)) for rank in range(hvd.size())]]
    for results in (hvd.grouped_allgather([own(tensors) for tensors in inputs]),
                    hvd.synchronize(hvd.grouped_allgather_async([own(tensors) for tensors in inputs]))):
        for result, tensors in zip(results, inputs):
            assert_same(result, torch.cat(tensors))


def test_results_outlive_their_operation():
    gathered = hvd.allgather(torch.full((1000,), float(hvd.rank())))
    half = gathered[:500 * hvd.size()]
    del gathered
    for _ in range(20):
        hvd.allgather(torch.full((1000,), 7.0))
    assert_same(half, torch.arange(hvd.size()).float().repeat_interleave(1000)[:500 * hvd.size()])
    half += 1  # it is writable


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_broadcast(dtype):
    inputs = everyone(values, (5, 2), dtype)
    for root in range(hvd.size()):
        given = own(inputs).clone()
        assert_same(hvd.broadcast(given, root), inputs[root])
        assert_same(given, own(inputs))
        assert hvd.broadcast_(given, root) is given
        assert_same(given, inputs[root])
    columns = own(inputs).clone()
    hvd.synchronize(hvd.broadcast_async_(columns[:, 0], 0))
    assert_same(columns[:, 0], inputs[0][:, 0])
    assert_same(columns[:, 1], own(inputs)[:, 1])
    assert_same(hvd.synchronize(hvd.broadcast_async(own(inputs), 0)), inputs[0])


def test_broadcast_from_no_rank():
    with pytest.raises(ValueError, match="root_rank"):
        hvd.broadcast(torch.ones(1), hvd.size())


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_even_alltoall(dtype):
    size, rank = hvd.size(), hvd.rank()
    inputs = everyone(values, (2 * size, 3), dtype)
    result = hvd.alltoall(own(inputs))
    assert_same(result, torch.cat([tensor[2 * rank:2 * rank + 2] for tensor in inputs]))


def rows_to(sender, receiver):
    return (sender + 2 * receiver) % 4


def test_uneven_alltoall():
    size, rank = hvd.size(), hvd.rank()
    splits = [[rows_to(sender, receiver) for receiver in range(size)] for sender in range(size)]
    inputs = [values(sender, (sum(splits[sender]), 2)) for sender in range(size)]
    expected = torch.cat([inputs[sender].split(splits[sender])[rank] for sender in range(size)])
    for given in (splits[rank], torch.tensor(splits[rank]), torch.tensor(splits[rank], dtype=torch.int32)):
        result, received = hvd.alltoall(own(inputs), splits=given)
        assert_same(result, expected)
        assert_same(received, torch.tensor([splits[sender][rank] for sender in range(size)], dtype=torch.int32))
    result, _ = hvd.synchronize(hvd.alltoall_async(own(inputs), splits=splits[rank]))
    assert_same(result, expected)


def test_splits_that_cannot_be():
    with pytest.raises(ValueError, match="split for each"):
        hvd.alltoall(torch.ones(hvd.size() + 1), splits=[1] * (hvd.size() + 1))
    with pytest.raises(ValueError, match="add up to"):
        hvd.alltoall(torch.ones(hvd.size() + 1), splits=[1] * hvd.size())
    with pytest.raises(ValueError, match="first dimension"):
        hvd.alltoall(torch.tensor(1.0))
    if hvd.size() > 1:
        with pytest.raises(ValueError, match="evenly"):
            hvd.alltoall(torch.ones(hvd.size() + 1))


def rows_of(tensor, rank, size):
    """That part of its rows that `rank` gets."""
    share, more = divmod(tensor.shape[0], size)
    begin = rank * share + min(rank, more)
    return tensor[begin:begin + share + (rank < more)]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
@pytest.mark.parametrize("rows", [0, 1, 4, 7])
def test_reducescatter(dtype, rows):
    inputs = everyone(values, (rows, 2), dtype)
    expected = rows_of(total(inputs), hvd.rank(), hvd.size())
    assert_same(hvd.reducescatter(own(inputs), op=hvd.Sum), expected)


def test_reducescatter_is_an_average():
    inputs = everyone(noise, (5, 3))
    expected = rows_of(total(inputs), hvd.rank(), hvd.size()) / hvd.size()
    assert torch.allclose(hvd.reducescatter(own(inputs)), expected, atol=1e-6)
    assert torch.allclose(hvd.synchronize(hvd.reducescatter_async(own(inputs))), expected, atol=1e-6)
    half = hvd.reducescatter(own(inputs), compression=hvd.Compression.fp16)
    assert half.dtype == torch.float32 and torch.allclose(half, expected, atol=1e-2)
    scaled = hvd.reducescatter(own(inputs), prescale_factor=2.0, postscale_factor=0.25)
    assert torch.allclose(scaled, expected / 2, atol=1e-6)
    with pytest.raises(RuntimeError, match="cannot be an Adasum"):
        hvd.reducescatter(own(inputs), op=hvd.Adasum)


def test_grouped_reducescatter():
    inputs = [everyone(values, (5, 2)), everyone(values, (2,), torch.float64, seed=4)]
    given = [own(tensors) for tensors in inputs]
    for results in (hvd.grouped_reducescatter(given, op=hvd.Sum),
                    hvd.synchronize(hvd.grouped_reducescatter_async(given, op=hvd.Sum))):
        for result, tensors in zip(results, inputs):
            assert_same(result, rows_of(total(tensors), hvd.rank(), hvd.size()))


def test_sparse_allreduce():
    def sparse(rank):
        indices = torch.tensor([[rank, rank + 1, rank], [0, 1, 0]])  # one twice
        return torch.sparse_coo_tensor(indices, values(rank, (3, 2)), (hvd.size() + 1, 2, 2))

    inputs = everyone(sparse)
    expected = total([tensor.to_dense() for tensor in inputs])
    wait = hvd.sparse_allreduce_async(own(inputs), name="sparse", op=hvd.Sum)
    assert not isinstance(wait, int)
    assert_same(wait().to_dense(), expected)
    average = hvd.sparse_allreduce_async(own(inputs), name="sparse", op=hvd.Average)()
    assert torch.allclose(average.to_dense(), expected / hvd.size())
    with pytest.raises(ValueError, match="must be Average or Sum"):
        hvd.sparse_allreduce_async(own(inputs), name="sparse", op=hvd.Max)


def test_sparse_allreduce_of_nothing_on_some_ranks():
    entries = hvd.rank()
    tensor = torch.sparse_coo_tensor(torch.arange(entries).view(1, -1), torch.ones(entries), (hvd.size(),))
    result = hvd.sparse_allreduce_async(tensor, name="sparse.none", op=hvd.Sum)().to_dense()
    assert_same(result, torch.tensor([float(hvd.size() - 1 - i) for i in range(hvd.size())]))


# --- Adasum ----------------------------------------------------------------------------------------------------------

def test_adasum():
    inputs = everyone(noise, (100,))
    if hvd.size() & (hvd.size() - 1):
        with pytest.raises(ValueError, match="power of two"):
            hvd.allreduce(own(inputs), op=hvd.Adasum)
        return
    result = hvd.allreduce(own(inputs), op=hvd.Adasum)
    assert torch.allclose(result, adasum_of(inputs), atol=1e-5)
    assert_same_on_all_ranks([result])
    with pytest.raises(ValueError, match="floats"):
        hvd.allreduce(torch.ones(3, dtype=torch.int32), op=hvd.Adasum)


# --- errors ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("tensor, reason", [(torch.ones(1, device="meta"), "it has no elements"),
                                            (torch.ones(2, 2).to_sparse(), "sparse"),
                                            (torch.ones(2, dtype=torch.complex64), "complex64"),
                                            ([1.0, 2.0], "torch.Tensor is needed here, not a list")])
def test_tensors_that_cannot_be_used(tensor, reason):
    with pytest.raises(ValueError, match=reason):
        hvd.allreduce_async_(tensor)
    with pytest.raises(ValueError, match=reason):
        hvd.broadcast_async(tensor, 0)
    with pytest.raises(ValueError, match=reason):
        hvd.allgather_async(tensor)


@pytest.mark.skipif("hvd.size() == 1")
def test_a_name_that_is_taken():
    """One rank alone cannot finish it, so the name stays taken until the others have come."""
    if hvd.rank() == 0:
        first = hvd.allreduce_async(torch.ones(2), name="taken")
        with pytest.raises(ValueError, match="taken"):
            hvd.allreduce_async(torch.ones(2), name="taken")
        hvd.barrier()
    else:
        hvd.barrier()
        first = hvd.allreduce_async(torch.ones(2), name="taken")
    assert_same(hvd.synchronize(first), torch.ones(2))
    assert_same(hvd.allreduce(torch.ones(2), name="taken"), torch.ones(2))


def shapes_differ():
    hvd.allreduce(torch.ones(3 + hvd.rank()), name="differs")


def types_differ():
    hvd.allreduce(torch.ones(3, dtype=torch.float64 if hvd.rank() == 0 else torch.float32), name="differs")


def ops_differ():
    hvd.allreduce(torch.ones(3), name="differs", op=hvd.Sum if hvd.rank() == 0 else hvd.Max)


def scales_differ():
    hvd.allreduce(torch.ones(3), name="differs", prescale_factor=1.0 + hvd.rank())


def roots_differ():
    hvd.broadcast(torch.ones(3), root_rank=min(hvd.rank(), 1), name="differs")


def later_dimensions_differ():
    hvd.allgather(torch.ones(2, 3 + hvd.rank()), name="differs")


def groups_differ():
    hvd.grouped_allreduce([torch.ones(2)] * (1 + min(hvd.rank(), 1)), name="differs")


@pytest.mark.skipif("hvd.size() == 1")
@pytest.mark.parametrize("call", [shapes_differ, types_differ, ops_differ, scales_differ, roots_differ,
                                  later_dimensions_differ, groups_differ])
def test_ranks_that_differ_all_get_the_error_and_go_on(call):
    beside = hvd.allreduce_async(torch.ones(1), name="beside", op=hvd.Sum)
    with pytest.raises(hvd.HorovodInternalError, match="rank"):
        call()
    assert hvd.synchronize(beside) == hvd.size()
    assert hvd.allreduce(torch.ones(1), name="differs", op=hvd.Sum) == hvd.size()


# --- join, barrier, process sets -------------------------------------------------------------------------------------

def test_join_with_uneven_data():
    """Rank r has r + 1 batches; averages are over all ranks, also those that have joined."""
    for batch in range(hvd.rank() + 1):
        result = hvd.allreduce(torch.ones(3), name=f"batch.{batch}")
        assert torch.allclose(result, torch.full((3,), (hvd.size() - batch) / hvd.size()))
    last = hvd.join()
    assert last == hvd.size() - 1
    assert_same(hvd.allreduce(torch.ones(1), op=hvd.Sum), torch.tensor([float(hvd.size())]))


@pytest.mark.skipif("hvd.size() == 1")
def test_only_reductions_go_on_while_a_rank_has_joined():
    if hvd.rank() == 0:
        assert hvd.join() >= 0
    else:
        with pytest.raises(hvd.HorovodInternalError, match="join"):
            hvd.allgather(torch.ones(1), name="while.joined")
        hvd.join()
    assert hvd.allreduce(torch.ones(1)) == 1


def test_barrier():
    for _ in range(3):
        hvd.barrier()


def test_the_global_process_set():
    everything = hvd.global_process_set
    assert (everything.process_set_id, everything.size(), everything.rank()) == (0, hvd.size(), hvd.rank())
    assert everything.included() and everything.ranks == list(range(hvd.size())) and everything.mpi_comm is None
    assert not hvd.remove_process_set(everything)


@pytest.mark.skipif("hvd.size() < 3")
def test_process_sets():
    last = hvd.size() - 1
    ends = hvd.add_process_set([0, last])
    middle = hvd.add_process_set(hvd.ProcessSet(range(1, last)))
    assert ends.process_set_id != middle.process_set_id and ends.ranks == [0, last]
    with pytest.raises(ValueError, match="already"):
        hvd.add_process_set([last, 0])
    own_set, others = (ends, middle) if hvd.rank() in (0, last) else (middle, ends)
    assert own_set.included() and not others.included()
    check_operations_in(own_set)
    with pytest.raises(ValueError, match="not in"):
        hvd.allreduce(torch.ones(1), process_set=others)
    with pytest.raises(ValueError, match="root_rank"):
        hvd.broadcast(torch.ones(1), others.ranks[0], process_set=own_set)
    assert hvd.remove_process_set(ends) and hvd.remove_process_set(middle)
    with pytest.raises(ValueError, match="added"):
        hvd.allreduce(torch.ones(1), process_set=own_set)


def check_operations_in(some):
    inputs = {rank: values(rank, (some.size(), 2)) for rank in some.ranks}
    mine, added = inputs[hvd.rank()], total(inputs.values())
    assert_same(hvd.allreduce(mine, op=hvd.Sum, process_set=some), added)
    assert torch.allclose(hvd.allreduce(mine, process_set=some), added / some.size())
    assert_same(hvd.allgather(mine, process_set=some), torch.cat(list(inputs.values())))
    root = some.ranks[-1]  # a rank of the world
    assert_same(hvd.broadcast(mine, root, process_set=some), inputs[root])
    place = some.rank()
    assert_same(hvd.alltoall(mine, process_set=some), torch.stack([tensor[place] for tensor in inputs.values()]))
    assert_same(hvd.reducescatter(mine, op=hvd.Sum, process_set=some), added[place:place + 1])
    hvd.barrier(process_set=some)
    assert hvd.broadcast_object(f"of {hvd.rank()}", root, process_set=some) == f"of {root}"


def test_timeline(tmp_path):
    """A negotiation that has begun goes on without it, and what is written at its end comes a little later."""
    path = tmp_path / "timeline.json"
    hvd.start_timeline(str(path), mark_cycles=True)
    hvd.barrier()
    hvd.allreduce(torch.ones(3), name="in.timeline")
    hvd.stop_timeline()
    while hvd.rank() == 0 and "in.timeline" not in path.read_text():
        os.sched_yield()
    hvd.barrier()
