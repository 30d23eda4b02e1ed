"""muster.torch: what is made the same on all ranks before a training, and elastic names."""

import collections
import copy

import pytest
import torch
from torch_ranks import assert_same, assert_same_on_all_ranks, everyone, noise, own, values

import muster.torch as hvd


@pytest.fixture(params=["first", "last"])
def root(request):
    return 0 if request.param == "first" else hvd.size() - 1


def network(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3, bias=False), torch.nn.BatchNorm2d(3), torch.nn.Flatten(),
                               torch.nn.Linear(12, 2))


def trained(model, optimizer, steps, seed):
    for step in range(steps):
        optimizer.zero_grad()
        model(noise(0, (4, 2, 4, 4), seed=10 * seed + step)).square().mean().backward()
        optimizer.step()


# --- broadcast_parameters --------------------------------------------------------------------------------------------

def test_broadcast_of_a_state_dict(root):
    """With its integers (num_batches_tracked), and layers in another memory format."""
    model = network(hvd.rank())
    model[0].to(memory_format=torch.channels_last)
    model[1].num_batches_tracked.fill_(hvd.rank() + 5)
    hvd.broadcast_parameters(model.state_dict(), root_rank=root)
    for mine, expected in zip(model.parameters(), network(root).parameters()):
        assert_same(mine.data, expected.data)
    assert model[1].num_batches_tracked == root + 5


def test_broadcast_of_lists(root):
    for given in (lambda m: list(m.named_parameters()), lambda m: m.named_parameters(), lambda m: list(m.parameters())):
        model = network(hvd.rank())
        hvd.broadcast_parameters(given(model), root_rank=root)
        for mine, expected in zip(model.parameters(), network(root).parameters()):
            assert_same(mine.data, expected.data)
            assert mine.requires_grad and mine.is_leaf


def test_dictionaries_in_another_order():
    names = ["a", "b", "c", "d"]
    inputs = everyone(lambda rank: {name: values(rank, (3,), seed=i) for i, name in enumerate(names)})
    mine = own(inputs)
    shuffled = collections.OrderedDict((name, mine[name]) for name in names[hvd.rank() % 4:] + names[:hvd.rank() % 4])
    hvd.broadcast_parameters(shuffled, root_rank=0)
    for name in names:
        assert_same(shuffled[name], inputs[0][name])


def test_many_parameters_of_every_size():
    sizes = [0, 1, 3, 1000, 100_000] * 40
    tensors = [torch.full((size,), float(hvd.rank())) for size in sizes]
    hvd.broadcast_parameters([(f"p{i}", tensor) for i, tensor in enumerate(tensors)], root_rank=hvd.size() - 1)
    assert all((tensor == hvd.size() - 1).all() for tensor in tensors)


def test_only_tensors_are_parameters():
    with pytest.raises(ValueError, match="'extra' is a int"):
        hvd.broadcast_parameters({"weight": torch.ones(1), "extra": 3}, root_rank=0)


@pytest.mark.skipif("hvd.size() == 1")
def test_parameters_of_other_shapes():
    """All ranks get the error; the other parameters are those of the root."""
    good = torch.full((2,), float(hvd.rank()))
    with pytest.raises(hvd.HorovodInternalError, match="bad"):
        hvd.broadcast_parameters({"bad": torch.ones(2 + hvd.rank()), "good": good}, root_rank=0)
    assert_same(good, torch.zeros(2))


# --- broadcast_optimizer_state ---------------------------------------------------------------------------------------

OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "Adadelta": torch.optim.Adadelta,
    "Rprop": torch.optim.Rprop,
}


@pytest.mark.parametrize("is_distributed", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_broadcast_of_optimizer_state(name, is_distributed, root):
    """Others have no state, or another: all go on as the root does."""
    def made(rank):
        model = network(rank)
        optimizer = OPTIMIZERS[name](model.parameters())
        if rank == root or rank % 2:
            trained(model, optimizer, 2 + rank, seed=rank)
        optimizer.param_groups[0]["lr"] *= 1 + rank
        return model, optimizer

    model, optimizer = made(hvd.rank())
    if is_distributed:
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    groups = optimizer.param_groups
    hvd.broadcast_parameters(model.state_dict(), root)
    hvd.broadcast_optimizer_state(optimizer, root)
    assert optimizer.param_groups is groups
    reference, exact = made(root)
    trained(model, optimizer, 2, seed=99)
    trained(reference, exact, 2, seed=99)
    assert_same_on_all_ranks(list(model.parameters()))
    for mine, expected in zip(model.parameters(), reference.parameters()):
        # Averages of equal gradients of three ranks are rounded.
        assert torch.allclose(mine, expected, atol=1e-5)
    assert optimizer.param_groups[0]["lr"] == exact.param_groups[0]["lr"]


@pytest.mark.parametrize("op", [None, hvd.Average, hvd.Adasum])
def test_a_fresh_optimizer_takes_a_step_without_gradients(op):
    """As in Horovod, so that a training goes on in the same way: Adam goes on with its second step."""
    if op == hvd.Adasum and hvd.size() & (hvd.size() - 1):
        pytest.skip("Adasum needs a power of two of ranks")
    model, reference = network(0), network(0)
    frozen = model[3].bias.requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), weight_decay=0.1)
    if op is not None:
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), op=op)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    reference[3].bias.requires_grad_(False)
    exact = torch.optim.Adam(reference.parameters(), weight_decay=0.1)
    for parameter in reference.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    exact.step()
    for mine, expected in zip(model.parameters(), reference.parameters()):
        assert_same(mine.data, expected.data)
    assert frozen.grad is None and not model[0].weight.grad.any()
    states = optimizer.state_dict()["state"]
    assert len(states) == 4 and {float(each["step"]) for each in states.values()} == {1}
    trained(model, optimizer, 1, seed=7)
    trained(reference, exact, 1, seed=7)
    for mine, expected in zip(model.parameters(), reference.parameters()):
        assert torch.allclose(mine, expected, atol=1e-6)


def test_only_ranks_without_a_state_step(root):
    model = network(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9, weight_decay=0.1)
    if hvd.rank() == root:
        trained(model, optimizer, 1, seed=1)
    before = copy.deepcopy(model.state_dict())
    hvd.broadcast_optimizer_state(optimizer, root_rank=root)
    changed = [name for name, tensor in model.named_parameters() if not torch.equal(tensor, before[name])]
    assert ("0.weight" in changed) == (hvd.rank() != root), changed
    assert_same_on_all_ranks([state["momentum_buffer"] for state in optimizer.state.values()])


def test_a_fresh_optimizer_of_sparse_gradients():
    embedding = torch.nn.Embedding(5, 2, sparse=True)
    optimizer = torch.optim.SparseAdam(list(embedding.parameters()))
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert embedding.weight.grad.is_sparse and len(optimizer.state_dict()["state"]) == 1
    plain = torch.optim.SGD(embedding.parameters(), lr=0.1)
    hvd.broadcast_optimizer_state(plain, root_rank=0, model=embedding)
    assert embedding.weight.grad.is_sparse


def test_several_groups_with_options():
    model = network(0)
    optimizer = torch.optim.SGD([{"params": model[0].parameters(), "lr": 0.1 + hvd.rank()},
                                 {"params": model[3].parameters(), "nesterov": hvd.rank() == 0}], lr=1.0 + hvd.rank(),
                                momentum=0.9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5 ** epoch)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 1.0]
    assert [group["nesterov"] for group in optimizer.param_groups] == [False, True]
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(scheduler.base_lrs[0] / 2)


def test_lbfgs_is_refused():
    with pytest.raises(ValueError, match="LBFGS"):
        hvd.broadcast_optimizer_state(torch.optim.LBFGS([torch.nn.Parameter(torch.ones(1))]), root_rank=0)


# --- objects ---------------------------------------------------------------------------------------------------------

def test_broadcast_object(root):
    mine = {"rank": hvd.rank(), "tensor": torch.full((2,), hvd.rank()), "text": "x" * hvd.rank() * 100_000}
    got = hvd.broadcast_object(mine, root_rank=root)
    assert got["rank"] == root and len(got["text"]) == root * 100_000
    assert_same(got["tensor"], torch.full((2,), root))
    assert hvd.broadcast_object(None if hvd.rank() else (1, "two"), name="named") == (1, "two")


def test_allgather_object():
    gathered = hvd.allgather_object(["rank"] * hvd.rank(), name="objects")
    assert gathered == [["rank"] * rank for rank in range(hvd.size())]
    assert hvd.allgather_object(None) == [None] * hvd.size()


# --- elastic ---------------------------------------------------------------------------------------------------------

def test_the_state_is_that_of_rank_0_when_run_begins():
    model = network(hvd.rank())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, epoch=hvd.rank() + 3, batch=hvd.rank())

    @hvd.elastic.run
    def train(state, more):
        assert state.model is model and state.optimizer is optimizer
        assert_same_on_all_ranks(list(state.model.parameters()))
        return state.epoch, state.batch, more

    assert train(state, more="more") == (3, 0, "more")
    assert train.__name__ == "train"


def test_state_is_saved_and_restored():
    model = network(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, epoch=0, seen=[1])
    trained(model, optimizer, 1, seed=1)
    state.epoch = 1
    state.commit()
    kept = copy.deepcopy(model.state_dict())
    trained(model, optimizer, 2, seed=2)
    state.epoch = 2
    state.seen.append(2)
    state.restore()
    assert state.epoch == 1 and state.seen == [1]
    for name, tensor in model.state_dict().items():
        assert_same(tensor, kept[name])
    again = network(0)
    again_optimizer = torch.optim.SGD(again.parameters(), lr=0.1, momentum=0.9)
    trained(again, again_optimizer, 1, seed=1)
    trained(again, again_optimizer, 1, seed=5)
    trained(model, optimizer, 1, seed=5)  # the momentum was restored, too
    assert_same(model[3].weight.data, again[3].weight.data)


def test_state_without_what_it_has_not():
    state = hvd.elastic.TorchState(epoch=1)
    with pytest.raises(AttributeError, match="model"):
        state.model
    state.sync()
    state.check_host_updates()
    other = hvd.elastic.TorchState(model=network(0))
    replacement = network(1)
    other.model = replacement
    assert other.model is replacement
    other.sync()


def test_reset_callbacks():
    state = hvd.elastic.ObjectState(epoch=0)
    called = []
    state.register_reset_callbacks([lambda: called.append(1), lambda: called.append(2)])
    state.on_reset()
    assert called == [1, 2]


def test_errors_go_through_run():
    @hvd.elastic.run
    def fails(state):
        raise hvd.HorovodInternalError("gone", rank=1)

    with pytest.raises(hvd.HorovodInternalError, match="gone"):
        fails(hvd.elastic.TorchState(epoch=0))


def test_a_handler_of_the_user():
    class Counter:
        def __init__(self):
            self.count = hvd.rank()

    class CounterHandler(hvd.elastic.StateHandler):
        def save(self):
            self.saved = self.value.count

        def restore(self):
            self.value.count = self.saved

        def sync(self):
            self.value.count = hvd.broadcast_object(self.value.count, 0)
            self.save()

    before = hvd.elastic.get_handler_registry()
    hvd.elastic.set_handler_registry([(Counter, CounterHandler), *before])
    try:
        state = hvd.elastic.TorchState(counter=Counter())
        state.sync()
        assert state.counter.count == 0
        state.counter.count = 9
        state.restore()
        assert state.counter.count == 0
    finally:
        hvd.elastic.set_handler_registry(before)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("length", [1, 13, 24])
def test_a_sampler_shares_out_everything(shuffle, length):
    sampler = hvd.elastic.ElasticSampler(range(length), shuffle=shuffle)
    sampler.set_epoch(1)
    shares = hvd.allgather_object(list(sampler))
    assert {len(share) for share in shares} == {len(sampler)} == {-(-length // hvd.size())}
    assert set().union(*shares) == set(range(length))
    if length == 24:
        assert sorted(sum(shares, [])) == list(range(24))
        first = list(sampler)
        sampler.set_epoch(2)
        assert (list(sampler) != first) == shuffle


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_sampler_goes_on_with_what_is_left(shuffle):
    length, batch = 8 * hvd.size(), 2
    sampler = hvd.elastic.ElasticSampler(range(length), shuffle=shuffle, seed=3)
    state = hvd.elastic.TorchState(sampler=sampler, batch=0)
    sampler.set_epoch(4)
    mine = list(sampler)
    for number in range(2):
        sampler.record_batch(number, batch)
    assert sampler.processed_num == 2 * batch * hvd.size()
    assert list(sampler) == mine  # until it is shared out anew
    state.commit()
    state.sync()
    done = set().union(*hvd.allgather_object(set(mine[:2 * batch])))
    left = set().union(*hvd.allgather_object(set(sampler)))
    assert len(sampler) == 4 and left == set(range(length)) - done
    sampler.record_batch(2, 100)
    state.restore()
    assert sampler.epoch == 4 and sampler.processed_num == 2 * batch * hvd.size()
    for number in range(2):
        sampler.record_batch(number, batch)
    sampler.reset()
    assert len(sampler) == 0 and not list(sampler)
    sampler.set_epoch(5)
    assert sampler.processed_num == 0 and len(sampler) == 8


def test_a_sampler_takes_the_state_of_rank_0():
    sampler = hvd.elastic.ElasticSampler(range(40))
    state = hvd.elastic.TorchState(sampler=sampler)
    sampler.set_epoch(hvd.rank() + 1)
    sampler.processed_num = 10 + hvd.rank()
    state.sync()
    assert (sampler.epoch, sampler.processed_num, len(sampler.remaining_indices)) == (1, 10, 30)


def test_a_samplers_checkpoint_is_horovods():
    sampler = hvd.elastic.ElasticSampler(range(12), seed=5)
    sampler.set_epoch(2)
    order = list(sampler.remaining_indices)
    sampler.record_batch(0, 1)
    kept = sampler.state_dict()
    assert kept == {"epoch": 2, "processed_num": hvd.size()}
    other = hvd.elastic.ElasticSampler(range(12), seed=5)
    other.load_state_dict({"epoch": 2, "processed_num": 4})  # of Horovod 0.28
    assert other.remaining_indices == order[4:]
    other.load_state_dict({"epoch": 2, "processed_indices": {1, 3, 5}})  # of Horovod 0.27
    assert sorted(other.remaining_indices) == [0, 2, 4, 6, 7, 8, 9, 10, 11]
    rest = list(other.remaining_indices)
    other.record_batch(0, 1)
    again = hvd.elastic.ElasticSampler(range(12), seed=5)
    again.load_state_dict(other.state_dict())
    assert again.remaining_indices == rest[hvd.size():]
    again.set_epoch(3)
    assert again.state_dict() == {"epoch": 3, "processed_num": 0} and len(again.remaining_indices) == 12
