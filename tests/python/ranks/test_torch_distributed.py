"""Backend "muster" of torch.distributed beside gloo, and DistributedDataParallel over it beside one process."""

import os

import pytest
import torch
import torch.distributed as dist
from torch_ranks import FLOATS, TYPES, assert_same, assert_same_on_all_ranks, everyone, noise, own, values

import muster.torch as hvd
import muster.torch.distributed

IS_OLD = torch.__version__ < "2"  # and Debian's has an FSDP that cannot be imported by its Python


@pytest.fixture(scope="module", autouse=True)
def groups(job):
    dist.init_process_group("muster")
    yield
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def gloo(groups):
    return dist.new_group(backend="gloo")


def size():
    return dist.get_world_size()


def rank():
    return dist.get_rank()


def test_the_group_is_the_job():
    assert dist.get_backend() == "muster"
    assert (rank(), size()) == (hvd.rank(), hvd.size())
    assert dist.is_initialized()


# --- collectives -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_all_reduce(dtype):
    inputs = everyone(values, (7, 3), dtype)
    tensor = own(inputs).clone()
    dist.all_reduce(tensor)
    expected = inputs[0]
    for other in inputs[1:]:
        expected = expected + other
    assert_same(tensor, expected)


@pytest.mark.parametrize("op", ["SUM", "PRODUCT", "MIN", "MAX"])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (4, 300)], ids=str)
def test_reductions_beside_gloo(gloo, op, shape):
    ours = own(everyone(values, shape))
    theirs = ours.clone()
    dist.all_reduce(ours, op=getattr(dist.ReduceOp, op))
    dist.all_reduce(theirs, op=getattr(dist.ReduceOp, op), group=gloo)
    assert_same(ours, theirs)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_average(dtype):
    inputs = everyone(values, (9,), dtype)
    tensor = own(inputs).clone()
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    assert torch.allclose(tensor.double(), sum(t.double() for t in inputs) / size(), rtol=1e-2)


def test_not_contiguous():
    inputs = everyone(values, (4, 6))
    tensor = own(inputs).clone()
    dist.all_reduce(tensor[:, ::2])
    assert_same(tensor[:, ::2], sum(inputs)[:, ::2])
    assert_same(tensor[:, 1::2], own(inputs)[:, 1::2])
    dist.broadcast(tensor.t(), src=size() - 1)
    assert_same_on_all_ranks([tensor])


def test_complex_numbers():
    tensor = torch.complex(torch.tensor([1.0 + rank()]), torch.tensor([2.0]))
    dist.all_reduce(tensor)
    assert tensor == torch.complex(torch.tensor([size() * (size() + 1) / 2]), torch.tensor([2.0 * size()]))


def test_broadcast():
    inputs = everyone(values, (5,))
    for root in range(size()):
        tensor = own(inputs).clone()
        dist.broadcast(tensor, src=root)
        assert_same(tensor, inputs[root])


def test_reduce(gloo):
    for root in range(size()):
        tensor = own(everyone(values, (5,)))
        dist.reduce(tensor, dst=root)
        assert_same(tensor, sum(everyone(values, (5,))) if rank() == root else values(rank(), (5,)))


def test_all_gather():
    inputs = everyone(values, (3, 2))
    outputs = [torch.empty(3, 2) for _ in inputs]
    dist.all_gather(outputs, own(inputs))
    for output, expected in zip(outputs, inputs):
        assert_same(output, expected)
    whole = torch.empty(3 * size(), 2)
    dist.all_gather_into_tensor(whole, own(inputs))
    assert_same(whole, torch.cat(inputs))


def test_all_gather_of_different_sizes():
    inputs = [values(r, (r, 2)) for r in range(size())]
    outputs = [torch.empty(r, 2) for r in range(size())]
    dist.all_gather(outputs, own(inputs))
    for output, expected in zip(outputs, inputs):
        assert_same(output, expected)
    with pytest.raises(ValueError, match="room"):
        dist.all_gather([torch.empty(9)] * size(), torch.empty(3))


def test_all_gather_coalesced():
    inputs = [everyone(values, (2,)), everyone(values, (3, 2), seed=1)]
    outputs = [[torch.empty(2), torch.empty(3, 2)] for _ in range(size())]
    dist.all_gather_coalesced(outputs, [own(tensors) for tensors in inputs])
    for r, pair in enumerate(outputs):
        assert_same(pair[0], inputs[0][r])
        assert_same(pair[1], inputs[1][r])


def test_all_reduce_coalesced():
    inputs = [everyone(values, (2,)), everyone(values, (3, 2), seed=1)]
    tensors = [own(given).clone() for given in inputs]
    dist.all_reduce_coalesced(tensors)
    for tensor, given in zip(tensors, inputs):
        assert_same(tensor, sum(given))


def test_gather_and_scatter():
    inputs = everyone(values, (4,))
    for root in range(size()):
        outputs = [torch.empty(4) for _ in inputs] if rank() == root else None
        dist.gather(own(inputs), outputs, dst=root)
        if rank() == root:
            for output, expected in zip(outputs, inputs):
                assert_same(output, expected)
        tensor = torch.empty(4)
        dist.scatter(tensor, inputs if rank() == root else None, src=root)
        assert_same(tensor, own(inputs))


def test_reduce_scatter():
    inputs = everyone(lambda r: [values(r, (3,), seed=to) for to in range(size())])
    output = torch.empty(3)
    dist.reduce_scatter(output, own(inputs))
    expected = sum(lists[rank()] for lists in inputs)
    assert_same(output, expected)
    whole = torch.empty(3)
    dist.reduce_scatter_tensor(whole, torch.cat(own(inputs)))
    assert_same(whole, expected)
    ragged = everyone(lambda r: [values(r, (to + 1,), seed=to) for to in range(size())])
    output = torch.empty(rank() + 1)
    dist.reduce_scatter(output, own(ragged), op=dist.ReduceOp.MAX)
    assert_same(output, torch.stack([lists[rank()] for lists in ragged]).amax(0))


def test_all_to_all():
    """Rank s sends s + r + 1 elements to rank r."""
    inputs = everyone(lambda s: [values(s, (s + r + 1,), seed=r) for r in range(size())])
    outputs = [torch.empty(s + rank() + 1) for s in range(size())]
    dist.all_to_all(outputs, own(inputs))
    for s, output in enumerate(outputs):
        assert_same(output, inputs[s][rank()])


def test_all_to_all_single():
    inputs = everyone(values, (2 * size(), 3))
    output = torch.empty(2 * size(), 3)
    dist.all_to_all_single(output, own(inputs))
    assert_same(output, torch.cat([tensor[2 * rank():2 * rank() + 2] for tensor in inputs]))
    splits = [[(s + r) % 3 for r in range(size())] for s in range(size())]
    inputs = [values(s, (sum(splits[s]), 3)) for s in range(size())]
    received = [splits[s][rank()] for s in range(size())]
    output = torch.empty(sum(received), 3)
    dist.all_to_all_single(output, own(inputs), received, splits[rank()])
    assert_same(output, torch.cat([tensor.split(splits[s])[rank()] for s, tensor in enumerate(inputs)]))
    with pytest.raises(ValueError, match="do not distribute"):
        dist.all_to_all_single(torch.empty(1), torch.empty(1), [1] * size() + [1], [1] * size() + [1])


def test_barriers():
    dist.barrier()
    work = dist.barrier(async_op=True)
    assert work.wait()


def test_objects():
    gathered = [None] * size()
    dist.all_gather_object(gathered, {"rank": rank(), "text": "x" * rank()})
    assert gathered == [{"rank": r, "text": "x" * r} for r in range(size())]
    objects = ["one", rank()] if rank() == 0 else [None, None]
    dist.broadcast_object_list(objects, src=0)
    assert objects == ["one", 0]


def test_objects_of_one_rank():
    gathered = [None] * size() if rank() == 0 else None
    dist.gather_object({"rank": rank()}, gathered, dst=0)
    assert rank() != 0 or gathered == [{"rank": r} for r in range(size())]
    own_object = [None]
    dist.scatter_object_list(own_object, [f"for {r}" for r in range(size())] if rank() == 0 else [None] * size(), src=0)
    assert own_object == [f"for {rank()}"]


@pytest.mark.skipif("not hasattr(dist, '_coalescing_manager')")
def test_coalescing():
    """By which FSDP and DTensor put operations together."""
    parts, wholes = [torch.empty(2), torch.empty(3)], [torch.empty(2 * size()), torch.empty(3 * size())]
    with dist._coalescing_manager():
        for whole, part in zip(wholes, parts):
            dist.all_gather_into_tensor(whole, part.fill_(rank()))
    for whole, part in zip(wholes, parts):
        assert_same(whole, torch.arange(float(size())).repeat_interleave(len(part)))
    with dist._coalescing_manager(async_ops=True) as works:
        for whole, part in zip(wholes, parts):
            dist.reduce_scatter_tensor(part, whole)
    works.wait()
    for part in parts:
        assert_same(part, torch.full_like(part, size() * rank()))


def test_operations_are_counted():
    before = dist.group.WORLD._get_sequence_number_for_group()
    dist.barrier()
    dist.all_reduce(torch.ones(1))
    assert dist.group.WORLD._get_sequence_number_for_group() == before + 2


def test_works():
    tensors = [torch.full((1000,), float(i + rank())) for i in range(50)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for i, (work, tensor) in enumerate(zip(works, tensors)):
        assert work.wait() and work.is_completed() and work.is_success() and work.exception() is None
        assert work.result()[0] is tensor
        assert_same(tensor, torch.full((1000,), i * size() + size() * (size() - 1) / 2))


def test_futures():
    work = dist.all_reduce(torch.ones(5), async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    assert_same(doubled.wait(), torch.full((5,), 2.0 * size()))


@pytest.mark.parametrize("many", [1, 3])
def test_what_is_attached_to_a_future_may_wait_for_another(many):
    """Started in the order of the first ones on all ranks, as PowerSGD's hook needs it."""
    def again(future):
        def once_more(inner):
            return dist.all_reduce(inner.value()[0], async_op=True).get_future().wait()[0]

        return dist.all_reduce(future.value()[0], async_op=True).get_future().then(once_more).wait()

    begun = [dist.all_reduce(torch.full((3 + i,), 1.0 + i), async_op=True).get_future() for i in range(many)]
    for i, future in enumerate([future.then(again) for future in begun]):
        assert_same(future.wait(), torch.full((3 + i,), (1.0 + i) * size() ** 3))


def test_works_that_nobody_waits_for():
    for _ in range(2500):
        dist.all_reduce(torch.ones(1), async_op=True)
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor == size()


# --- messages --------------------------------------------------------------------------------------------------------

@pytest.mark.skipif("hvd.size() == 1")
@pytest.mark.parametrize("elements", [1, 1000, 300_000])
def test_send_and_receive_in_a_ring(elements):
    right, left = (rank() + 1) % size(), (rank() - 1) % size()
    sent = dist.isend(torch.full((elements,), float(rank())), right, tag=3)
    tensor = torch.empty(elements)
    assert dist.recv(tensor, left, tag=3) == left
    sent.wait()
    assert_same(tensor, torch.full((elements,), float(left)))


@pytest.mark.skipif("hvd.size() == 1")
def test_send_to_columns():
    matrix = torch.zeros(3, 4)
    if rank() == 0:
        dist.send(torch.arange(12.0).view(3, 4)[:, 1], 1)
    elif rank() == 1:
        dist.recv(matrix[:, 2], 0)
        assert_same(matrix[:, 2], torch.tensor([1.0, 5.0, 9.0]))


def test_receive_from_anybody():
    with pytest.raises(ValueError, match="name one"):
        dist.recv(torch.empty(1))


# --- groups ----------------------------------------------------------------------------------------------------------

@pytest.mark.skipif("hvd.size() < 3")
def test_a_smaller_group():
    last = size() - 1
    ends = dist.new_group([0, last])
    both = dist.new_group(range(size()))
    if rank() in (0, last):
        assert dist.get_world_size(ends) == 2 and dist.get_rank(ends) == (0 if rank() == 0 else 1)
        tensor = torch.tensor([rank() + 1.0])
        dist.all_reduce(tensor, group=ends)
        assert tensor == 1 + last + 1
        dist.broadcast(tensor.fill_(rank()), src=last, group=ends)  # a rank of the world
        assert tensor == last
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=both)
    assert tensor == size()


def test_groups_that_are_gone_leave_nothing():
    """Each has a thread, memory that its ranks share, and connections."""
    def use_one():
        group = dist.new_group(range(size()))
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=group)
        assert tensor == size()
        dist.destroy_process_group(group)

    use_one()
    before = len(os.listdir("/proc/self/task"))
    for _ in range(8):
        use_one()
    assert len(os.listdir("/proc/self/task")) <= before + 2


@pytest.mark.skipif("hvd.size() == 1")
@pytest.mark.parametrize("differing", ["shape", "operation"])
def test_ranks_that_differ(differing):
    """All get the error; that group has ended, others go on."""
    group = dist.new_group(range(size()))
    tensor = torch.ones(2 + (rank() if differing == "shape" else 0))
    op = dist.ReduceOp.MAX if differing == "operation" and rank() == 0 else dist.ReduceOp.SUM
    with pytest.raises(hvd.HorovodInternalError, match="rank"):
        dist.all_reduce(tensor, op=op, group=group)
    work = dist.all_reduce(torch.ones(1), async_op=True)
    assert work.get_future().wait()[0] == size()


@pytest.mark.skipif("hvd.size() == 1")
def test_errors_are_those_of_futures_too():
    group = dist.new_group(range(size()))
    work = dist.all_reduce(torch.ones(1 + rank()), group=group, async_op=True)
    with pytest.raises(RuntimeError, match="rank"):
        work.get_future().wait()
    assert not work.is_success() and isinstance(work.exception(), hvd.HorovodInternalError)


def test_what_cannot_be_done():
    with pytest.raises(ValueError, match="no reduction BAND: use SUM"):
        dist.all_reduce(torch.ones(1, dtype=torch.int32), op=dist.ReduceOp.BAND)
    with pytest.raises(ValueError, match="sparse"):
        dist.all_reduce(torch.ones(2).to_sparse())


# --- what finds groups by their names --------------------------------------------------------------------------------

def test_a_group_has_a_name():
    names = {group.group_name for group in [dist.group.WORLD, dist.new_group(range(size()))]}
    assert len(names) == 2 and "" not in names
    group = dist.new_group(range(size()))
    dist.destroy_process_group(group)


@pytest.mark.skipif(IS_OLD, reason="needs torch 2")
def test_functional_collectives():
    import torch.distributed._functional_collectives as functional
    ones = torch.ones(2 * size())
    assert_same(functional.all_reduce(ones, "sum", dist.group.WORLD) + 0, torch.full_like(ones, size()))
    part = torch.full((2,), float(rank()))
    assert_same(functional.all_gather_tensor(part, 0, dist.group.WORLD) + 0,
                torch.arange(float(size())).repeat_interleave(2))
    assert_same(functional.reduce_scatter_tensor(ones, "sum", 0, dist.group.WORLD) + 0, torch.full((2,), float(size())))
    if hasattr(functional, "all_to_all_single"):
        received = functional.all_to_all_single(torch.full((size(),), float(rank())), None, None, dist.group.WORLD)
        assert_same(received + 0, torch.arange(float(size())))
    gathered = functional.all_gather_into_tensor_coalesced([part, part], dist.group.WORLD)
    assert_same([each + 0 for each in gathered][1], torch.arange(float(size())).repeat_interleave(2))
    [scattered] = functional.reduce_scatter_tensor_coalesced([ones], "sum", [0], dist.group.WORLD)
    assert_same(scattered + 0, torch.full((2,), float(size())))


def sharded(model):
    from torch.distributed.fsdp import FullyShardedDataParallel
    return FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)


def fully_sharded(model):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    return fully_shard(model, mesh=init_device_mesh("cpu", (size(),)))


@pytest.mark.skipif(IS_OLD, reason="needs torch 2")
@pytest.mark.parametrize("shard", [sharded, fully_sharded])
def test_fsdp_is_like_one_process(shard):
    import torch.distributed.fsdp
    if shard is fully_sharded and not hasattr(torch.distributed.fsdp, "fully_shard"):
        pytest.skip("this torch has no fully_shard()")
    if shard is sharded and torch.__version__.startswith("2.1."):
        pytest.skip("its FSDP makes streams of CUDA")
    parallel, alone = shard(network(0)), network(0)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (parallel, alone)]
    for step in range(3):
        inputs = noise(0, (4 * size(), 6), seed=step)
        train(parallel, optimizers[0], inputs[4 * rank():4 * rank() + 4])
        train(alone, optimizers[1], inputs)
    inputs = noise(1, (4, 6))
    assert torch.allclose(parallel(inputs), alone(inputs), rtol=1e-4, atol=1e-6)


def test_zero_redundancy_optimizer():
    from torch.distributed.optim import ZeroRedundancyOptimizer
    parallel, alone = torch.nn.parallel.DistributedDataParallel(network(0)), network(0)
    optimizers = [ZeroRedundancyOptimizer(parallel.parameters(), torch.optim.Adam, lr=0.01),
                  torch.optim.Adam(alone.parameters(), lr=0.01)]
    for step in range(3):
        inputs = noise(0, (4 * size(), 6), seed=step)
        train(parallel, optimizers[0], inputs[4 * rank():4 * rank() + 4])
        train(alone, optimizers[1], inputs)
    for mine, exact in zip(parallel.parameters(), alone.parameters()):
        assert torch.allclose(mine, exact, rtol=1e-3, atol=1e-4)
    optimizers[0].consolidate_state_dict(0)
    assert rank() != 0 or len(optimizers[0].state_dict()["state"]) == len(list(alone.parameters()))


# --- DistributedDataParallel -----------------------------------------------------------------------------------------

def network(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 300), torch.nn.Tanh(), torch.nn.Linear(300, 300), torch.nn.Tanh(),
                               torch.nn.Linear(300, 2))


def train(model, optimizer, inputs):
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()


@pytest.mark.parametrize("options", [{}, {"bucket_cap_mb": 0.01}, {"gradient_as_bucket_view": True},
                                     {"find_unused_parameters": True}, {"static_graph": True}], ids=str)
def test_ddp_is_like_one_process(options):
    model = network(rank())  # DistributedDataParallel broadcasts that of rank 0
    parallel = torch.nn.parallel.DistributedDataParallel(model, **options)
    alone = network(0)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (model, alone)]
    for step in range(6):
        inputs = noise(0, (4 * size(), 6), seed=step)
        train(parallel, optimizers[0], inputs[4 * rank():4 * rank() + 4])
        train(alone, optimizers[1], inputs)
        assert_same_on_all_ranks(list(model.parameters()))
        for mine, exact in zip(model.parameters(), alone.parameters()):
            assert torch.allclose(mine, exact, rtol=1e-4, atol=1e-6)


def test_ddp_with_parameters_that_are_not_used():
    class Branches(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.branches = torch.nn.ModuleList(torch.nn.Linear(2, 1, bias=False) for _ in range(size()))

        def forward(self, inputs):
            return self.branches[rank()](inputs)

    model = torch.nn.parallel.DistributedDataParallel(Branches(), find_unused_parameters=True)
    before = [branch.weight.detach().clone() for branch in model.module.branches]
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    for branch, start in zip(model.module.branches, before):
        assert torch.allclose(branch.weight, start - 2.0 / size())


@pytest.mark.parametrize("name", ["allreduce_hook", "fp16_compress_hook", "powerSGD_hook"])
def test_ddp_with_hooks(name):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(40, 40))
    if name == "powerSGD_hook":
        model.register_comm_hook(powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook)
    else:
        model.register_comm_hook(None, getattr(default_hooks, name))
    for step in range(4):
        model.zero_grad()
        model(noise(rank(), (4, 40), seed=step)).sum().backward()
        assert_same_on_all_ranks([parameter.grad for parameter in model.parameters()])


def test_ddp_without_synchronization():
    """no_sync() adds up gradients of a rank."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
    with model.no_sync():
        model(torch.full((1, 2), float(rank()))).sum().backward()
    model(torch.full((1, 2), float(rank()))).sum().backward()
    assert torch.allclose(model.module.weight.grad, torch.full((1, 2), float(size() - 1)))


def test_ddp_with_buffers():
    """Buffers of rank 0 are everybody's in the next forward()."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.BatchNorm1d(3))
    for step in range(3):
        model(noise(rank(), (4, 3), seed=step)).sum().backward()
    model(torch.zeros(4, 3))
    assert_same_on_all_ranks([model.module.running_mean, model.module.running_var])
    assert model.module.num_batches_tracked == 4
