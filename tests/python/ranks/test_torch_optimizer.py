"""muster.torch's DistributedOptimizer: like a training by one process on the batches of all ranks together."""

import copy
import gc
import warnings

import pytest
import torch
from torch_ranks import adasum_of, assert_same, assert_same_on_all_ranks, everyone, noise

import muster.torch as hvd
from muster.torch import gradients

BATCH = 4
STEPS = 6


def network(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.LayerNorm(8),
                               torch.nn.Tanh(), torch.nn.Linear(8, 3))


def data(step, batch=BATCH):
    """(inputs, targets) of all ranks, in rank order."""
    return noise(0, (batch * hvd.size(), 6), seed=100 + step), noise(1, (batch * hvd.size(), 3), seed=100 + step)


def loss_of(model, inputs, targets):
    return torch.nn.functional.mse_loss(model(inputs), targets)


def part(tensor, rank=None, batch=BATCH):
    rank = hvd.rank() if rank is None else rank
    return tensor[batch * rank:batch * rank + batch]


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
}


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def train_alone(make, steps=STEPS):
    """Parameters after every step of one process with the global batches. Before them there is a step with gradients of
    zeros, as broadcast_optimizer_state() takes one."""
    model = network()
    optimizer = make(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model, *data(step)).backward()
        optimizer.step()
        yield [parameter.detach().clone() for parameter in model.parameters()]


def check_like_alone(make=sgd, tolerance=2e-6, optimizer_options=None, one_step=None):
    """Bitwise the same on all ranks after every step, and within `tolerance` what one process gets."""
    model = network(seed=0 if hvd.rank() == 0 else 7)
    options = {"named_parameters": model.named_parameters(), **(optimizer_options or {})}
    if callable(options.get("groups")):
        options["groups"] = options["groups"](model)
    optimizer = hvd.DistributedOptimizer(make(model.parameters()), **options)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for step, expected in enumerate(train_alone(make)):
        inputs, targets = data(step)
        if one_step is None:
            optimizer.zero_grad()
            loss_of(model, part(inputs), part(targets)).backward()
            optimizer.step()
        else:
            one_step(model, optimizer, part(inputs), part(targets))
        assert_same_on_all_ranks(list(model.parameters()))
        for parameter, exact in zip(model.parameters(), expected):
            assert torch.allclose(parameter, exact, rtol=1e-4, atol=tolerance), (step, parameter - exact)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_like_one_process(name):
    # Where a gradient is near zero, adaptive steps are its sign times the rate: rounding shows more.
    check_like_alone(OPTIMIZERS[name], tolerance=2e-6 if name == "SGD" else 2e-4)


@pytest.mark.parametrize("held", [1, 300])
def test_gradients_submitted_during_backward(held, monkeypatch):
    """One by one, or some together; those of other tests are small enough to be submitted at its end."""
    monkeypatch.setattr(gradients, "_HELD_BYTES", held)
    check_like_alone()
    check_like_alone(optimizer_options={"compression": hvd.Compression.bf16}, tolerance=2e-2)


def test_without_names():
    check_like_alone(optimizer_options={"named_parameters": None})


@pytest.mark.parametrize("groups", [0, 1, 2, 100, lambda model: [list(model[0].parameters())],
                                    lambda model: [[model[3].bias, model[0].weight], [model[0].bias]]])
def test_groups(groups):
    check_like_alone(optimizer_options={"groups": groups})


def test_num_groups_is_deprecated():
    model = network()
    with pytest.warns(DeprecationWarning, match="num_groups"):
        optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), num_groups=2)
    loss_of(model, *data(0)).backward()
    optimizer.step()
    assert_same_on_all_ranks(list(model.parameters()))


@pytest.mark.parametrize("factor", [0.5, 4.0])
def test_gradient_predivide_factor(factor):
    check_like_alone(optimizer_options={"gradient_predivide_factor": factor})


@pytest.mark.parametrize("compression, tolerance", [(hvd.Compression.fp16, 3e-3), (hvd.Compression.bf16, 2e-2)])
@pytest.mark.parametrize("groups", [None, 2])
def test_compression(compression, tolerance, groups):
    check_like_alone(tolerance=tolerance, optimizer_options={"compression": compression, "groups": groups})


def test_a_compressor_of_the_user():
    class Scaled(hvd.compression.Compressor):
        @staticmethod
        def compress(tensor):
            return tensor * 2, 2

        @staticmethod
        def decompress(tensor, ctx):
            return tensor / ctx

    check_like_alone(optimizer_options={"compression": Scaled})


def test_sum():
    model = network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), op=hvd.Sum)
    before = model[3].bias.detach().clone()
    model[3].bias.sum().backward()
    optimizer.step()
    assert torch.allclose(model[3].bias, before - hvd.size())


def accumulated(model, optimizer, inputs, targets):
    """Two backward passes, each of half the batch and half the loss."""
    optimizer.zero_grad()
    for half in (slice(0, BATCH // 2), slice(BATCH // 2, BATCH)):
        (loss_of(model, inputs[half], targets[half]) / 2).backward()
    optimizer.step()


@pytest.mark.parametrize("groups", [None, 2])
def test_backward_passes_per_step(groups):
    check_like_alone(optimizer_options={"backward_passes_per_step": 2, "groups": groups}, one_step=accumulated)


def test_set_backward_passes_per_step():
    def one_step(model, optimizer, inputs, targets):
        optimizer.set_backward_passes_per_step(2)
        accumulated(model, optimizer, inputs, targets)

    check_like_alone(one_step=one_step)


def test_a_step_before_all_passes():
    """What has come so far is reduced."""
    check_like_alone(optimizer_options={"backward_passes_per_step": 3})


@pytest.mark.skipif("hvd.size() == 1")
def test_more_backward_passes_than_passes_per_step():
    model = network()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), named_parameters=model.named_parameters())
    loss_of(model, *data(0)).backward()
    with pytest.raises(AssertionError, match="backward_passes_per_step"):
        loss_of(model, *data(0)).backward()
    optimizer.synchronize()


def clipped(model, optimizer, inputs, targets):
    optimizer.zero_grad()
    loss_of(model, inputs, targets).backward()
    optimizer.synchronize()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1e6)
    with optimizer.skip_synchronize():
        optimizer.step()


def test_synchronize_and_skip_synchronize():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_like_alone(one_step=clipped)


def test_gradients_after_synchronize_are_those_of_all_ranks():
    model, alone = network(), network()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), named_parameters=model.named_parameters())
    inputs, targets = data(0)
    loss_of(model, part(inputs), part(targets)).backward()
    optimizer.synchronize()
    loss_of(alone, inputs, targets).backward()
    for mine, exact in zip(model.parameters(), alone.parameters()):
        assert torch.allclose(mine.grad, exact.grad, atol=1e-6)


def test_step_after_synchronize_warns():
    model = network()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()))
    loss_of(model, *data(0)).backward()
    optimizer.synchronize()
    with pytest.warns(UserWarning, match="skip_synchronize"):
        optimizer.step()
    loss_of(model, *data(0)).backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.skipif("hvd.size() == 1")
def test_zero_grad_between_backward_and_step(passes):
    model = network()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), backward_passes_per_step=passes)
    optimizer.zero_grad()
    loss_of(model, *data(0)).backward()
    with pytest.raises(AssertionError, match="being reduced"):
        optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    assert model[0].weight.grad is None


@pytest.mark.parametrize("groups", [None, 1])
def test_missing_gradients_count_as_zeros(groups):
    """Each rank uses another layer; the last layer is used by none."""
    size = hvd.size()
    layers = torch.nn.ModuleList(torch.nn.Linear(2, 1, bias=False) for _ in range(size + 1))
    hvd.broadcast_parameters(layers.state_dict(), 0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layers.parameters(), lr=1.0), layers.named_parameters(),
                                         groups=groups)
    before = [layer.weight.detach().clone() for layer in layers]
    for _ in range(2):
        optimizer.zero_grad(set_to_none=True)
        layers[hvd.rank()](torch.ones(1, 2)).sum().backward()
        optimizer.step()
    for layer, start in zip(layers[:size], before):
        assert torch.allclose(layer.weight, start - 2.0 / size)
    if size > 1:
        assert_same(layers[size].weight.grad, torch.zeros(1, 2))


def test_frozen_parameters():
    model = network()
    model[0].weight.requires_grad_(False)
    frozen = model[0].weight.clone()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(), groups=2)
    loss_of(model, *data(hvd.rank())).backward()
    optimizer.step()
    assert_same(model[0].weight.data, frozen)
    assert_same_on_all_ranks(list(model.parameters()))


def test_a_closure():
    def one_step(model, optimizer, inputs, targets):
        def closure():
            optimizer.zero_grad()
            loss = loss_of(model, inputs, targets)
            loss.backward()
            return loss

        before = loss_of(model, inputs, targets).item()
        assert optimizer.step(closure).item() == before

    check_like_alone(one_step=one_step)


def test_a_closure_that_is_called_several_times():
    """LBFGS looks at the loss at several places in a step; with the loss of all ranks it goes as in one process."""
    def closure_of(model, optimizer, inputs, targets, average):
        def closure():
            optimizer.zero_grad()
            loss = loss_of(model, inputs, targets)
            loss.backward()
            return average(loss.detach())
        return closure

    alone, model = network().double(), network().double()
    inputs, targets = (tensor.double() for tensor in data(0))
    exact = torch.optim.LBFGS(alone.parameters(), max_iter=5)
    exact.step(closure_of(alone, exact, inputs, targets, lambda loss: loss))
    optimizer = hvd.DistributedOptimizer(torch.optim.LBFGS(model.parameters(), max_iter=5))
    optimizer.step(closure_of(model, optimizer, part(inputs), part(targets), hvd.allreduce))
    assert_same_on_all_ranks(list(model.parameters()))
    for parameter, expected in zip(model.parameters(), alone.parameters()):
        assert torch.allclose(parameter, expected, rtol=1e-6, atol=1e-8)


# --- sparse gradients ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("as_dense", [False, True])
@pytest.mark.parametrize("op", [hvd.Average, hvd.Sum])
@pytest.mark.parametrize("groups", [None, 1])
def test_sparse_gradients(as_dense, op, groups):
    def model_of():
        torch.manual_seed(3)
        return torch.nn.Sequential(torch.nn.Embedding(10, 4, sparse=True), torch.nn.Linear(4, 1))

    words = everyone(lambda rank: torch.tensor([rank, rank + 1, 0]))
    alone, model = model_of(), model_of()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), op=op,
                                         sparse_as_dense=as_dense, groups=groups)
    exact = torch.optim.SGD(alone.parameters(), lr=0.1 / (hvd.size() if op == hvd.Average else 1))
    for _ in range(3):
        optimizer.zero_grad(set_to_none=True)
        model(words[hvd.rank()]).sum().backward()
        optimizer.step()
        assert model[0].weight.grad.is_sparse
        exact.zero_grad()
        alone(torch.cat(words)).sum().backward()
        exact.step()
    assert_same_on_all_ranks(list(model.parameters()))
    for parameter, expected in zip(model.parameters(), alone.parameters()):
        assert torch.allclose(parameter, expected, atol=1e-5)


@pytest.mark.parametrize("as_dense", [False, True])
def test_an_optimizer_for_sparse_gradients(as_dense):
    """It refuses dense ones."""
    embedding = torch.nn.Embedding(10, 3, sparse=True)
    hvd.broadcast_parameters(embedding.state_dict(), 0)
    before = embedding.weight.detach().clone()
    optimizer = hvd.DistributedOptimizer(torch.optim.SparseAdam(list(embedding.parameters()), lr=0.1),
                                         sparse_as_dense=as_dense)
    embedding(torch.tensor([hvd.rank(), 9])).sum().backward()
    optimizer.step()
    assert_same_on_all_ranks([embedding.weight])
    changed = (embedding.weight != before).any(dim=1).nonzero().flatten().tolist()
    assert changed == [*range(hvd.size()), 9]
    embedding.sparse = False
    optimizer.zero_grad(set_to_none=True)
    embedding(torch.tensor([hvd.rank(), 9])).sum().backward()
    optimizer.synchronize()
    assert not embedding.weight.grad.is_sparse
    assert list(optimizer._parameter_names.values()) == ["allreduce.noname.0.0"]


def test_a_sparse_gradient_that_is_missing_later():
    embedding = torch.nn.Embedding(4, 2, sparse=True)
    hvd.broadcast_parameters(embedding.state_dict(), 0)
    start = embedding.weight.detach().clone()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(embedding.parameters(), lr=1.0), embedding.named_parameters())
    for step in range(2):
        optimizer.zero_grad(set_to_none=True)
        if step == 0 or hvd.rank() == 0:
            embedding(torch.tensor([1])).sum().backward()
        optimizer.step()
    assert torch.allclose(embedding.weight[1], start[1] - 1 - 1 / hvd.size())


# --- the class -------------------------------------------------------------------------------------------------------

class Special(torch.optim.SGD):
    """A class of the user, whose constructor takes other things than parameters."""

    def __init__(self, parameters, note):
        super().__init__(parameters, lr=0.5)
        self.note = note

    def describe(self):
        return f"{self.note}: {len(self.param_groups)}"


def test_it_is_of_a_subclass_of_the_users_class():
    model = network()
    optimizer = Special(model.parameters(), note="mine")
    wrapped = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    assert isinstance(wrapped, Special) and type(wrapped) is not Special
    assert type(wrapped).__name__ == "Special"
    assert wrapped.describe() == "mine: 1"
    assert wrapped.param_groups is optimizer.param_groups


def test_schedulers_made_before_and_after():
    model = network()
    optimizer = sgd(model.parameters())
    before = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    after = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1.0)
    loss_of(model, *data(0)).backward()
    optimizer.step()
    after.step()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it watches the step() of the optimizer that was wrapped
        before.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.05)
    assert_same_on_all_ranks(list(model.parameters()))


def test_state_goes_through_state_dict():
    def trained(steps, state=None):
        model = network()
        optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters())
        if state:
            model.load_state_dict(state[0])
            optimizer.load_state_dict(state[1])
        for step in steps:
            inputs, targets = data(step)
            optimizer.zero_grad()
            loss_of(model, part(inputs), part(targets)).backward()
            optimizer.step()
        return copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())

    whole, _ = trained(range(4))
    resumed, _ = trained(range(2, 4), trained(range(2)))
    for name, tensor in whole.items():
        assert_same(resumed[name], tensor)


def test_load_state_dict_while_gradients_are_on_their_way():
    model = network()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters())
    loss_of(model, *data(0)).backward()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.zero_grad()
    loss_of(model, *data(0)).backward()
    optimizer.step()
    assert_same_on_all_ranks(list(model.parameters()))


def test_a_model_can_be_wrapped_again():
    """Hooks of an optimizer that is gone are gone."""
    model = network()
    for _ in range(3):
        optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters())
        loss_of(model, *data(0)).backward()
        optimizer.step()
        del optimizer
        gc.collect()
    assert_same_on_all_ranks(list(model.parameters()))


def test_two_optimizers_of_one_model():
    model = network()
    names = dict(model.named_parameters())
    first = hvd.DistributedOptimizer(sgd(model[0].parameters()), names.items())
    second = hvd.DistributedOptimizer(sgd(model[3].parameters()), names.items())
    for step in range(2):
        first.zero_grad()
        second.zero_grad()
        inputs, targets = data(step)
        loss_of(model, part(inputs), part(targets)).backward()
        first.step()
        second.step()
    assert_same_on_all_ranks(list(model.parameters()))


def test_parameters_of_other_memory_formats():
    torch.manual_seed(0)
    model = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    alone = copy.deepcopy(model)
    images = noise(0, (2 * hvd.size(), 3, 5, 5), seed=2).contiguous(memory_format=torch.channels_last)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    model(part(images, batch=2)).square().mean().backward()
    optimizer.step()
    exact = torch.optim.SGD(alone.parameters(), lr=0.1)
    alone(images).square().mean().backward()
    exact.step()
    assert torch.allclose(model.weight, alone.weight, atol=1e-6)


def test_bfloat16_parameters():
    weight = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("weight", weight)])
    (weight * float(hvd.rank() + 1)).sum().backward()
    optimizer.step()
    assert_same(weight.data, torch.full((4,), 1 - (hvd.size() + 1) / 2, dtype=torch.bfloat16))


# --- settings that cannot be -----------------------------------------------------------------------------------------

def test_names_that_are_wrong():
    model = network()
    pairs = list(model.named_parameters())
    for named, reason in ((list(model.parameters()), "pairs"),
                          (pairs + [("0.bias", pairs[0][1])], "0.bias"), (pairs[1:], "lacks 1 of")):
        with pytest.raises(ValueError, match=reason):
            hvd.DistributedOptimizer(sgd(model.parameters()), named_parameters=named)


def test_settings_that_are_wrong():
    model = network()
    other = torch.nn.Parameter(torch.ones(1))
    first = model[0].weight
    for options, reason in (({"gradient_predivide_factor": 2.0, "op": hvd.Sum}, "gradient_predivide_factor"),
                            ({"groups": -1}, "negative"), ({"groups": "all"}, "pass a number"),
                            ({"groups": [first]}, "pass a number"), ({"groups": [[other]]}, "not a parameter"),
                            ({"groups": [[first], [first]]}, "twice")):
        with pytest.raises(ValueError, match=reason):
            hvd.DistributedOptimizer(sgd(model.parameters()), **options)


@pytest.mark.skipif("hvd.size() == 1")
def test_a_gradient_that_requires_a_gradient():
    model = torch.nn.Linear(2, 1)
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()))
    with pytest.raises(AssertionError, match="create_graph"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model(torch.ones(1, 2)).square().sum().backward(create_graph=True)
    del optimizer


@pytest.mark.skipif("hvd.size() == 1")
def test_ranks_whose_parameters_differ():
    """All get the error in step(), and go on."""
    shape = (3,) if hvd.rank() == 0 else (4,)
    wrong, right = torch.nn.Parameter(torch.ones(shape)), torch.nn.Parameter(torch.ones(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([wrong, right], lr=1.0), [("wrong", wrong), ("right", right)])
    (wrong.sum() + right.sum() * hvd.rank()).backward()
    with pytest.raises(hvd.HorovodInternalError, match="wrong"):
        optimizer.step()
    assert_same(right.grad, torch.full((2,), (hvd.size() - 1) / 2))  # the others are done all the same
    optimizer.zero_grad()
    assert hvd.allreduce(torch.ones(1)) == 1


# --- ranks with more or less to do -----------------------------------------------------------------------------------

def test_join_with_uneven_data():
    """Rank r makes r + 1 steps; then the ranks that go on have the sum of theirs, divided by the number of all."""
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("weight", weight)])
    for _ in range(hvd.rank() + 1):
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()
    assert hvd.join() == hvd.size() - 1
    expected = -sum((hvd.size() - step) / hvd.size() for step in range(hvd.rank() + 1))
    assert torch.allclose(weight, torch.full((2,), expected))
    hvd.broadcast_parameters([("weight", weight)], root_rank=hvd.size() - 1)
    assert_same_on_all_ranks([weight])


@pytest.mark.skipif("hvd.size() < 3")
def test_a_process_set():
    """Ranks outside it step by themselves."""
    some = hvd.add_process_set([0, 1])
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("weight", weight)], process_set=some)
    (weight.sum() * float(hvd.rank())).backward()
    optimizer.step()
    assert torch.allclose(weight, torch.full((2,), -0.5 if some.included() else -float(hvd.rank())))
    hvd.remove_process_set(some)


def test_a_process_set_that_was_not_added():
    """It would be a training of each rank by itself."""
    with pytest.raises(ValueError, match=r"ranks=\[0\], mpi_comm=None\) was not added, .*: give it to init"):
        hvd.DistributedOptimizer(sgd(network().parameters()), process_set=hvd.ProcessSet([0]))
    with pytest.raises(ValueError, match="was not added"):
        hvd.alltoall(torch.ones(2), process_set=hvd.ProcessSet([0]))


# --- Adasum ----------------------------------------------------------------------------------------------------------

def power_of_two():
    return hvd.size() & (hvd.size() - 1) == 0


@pytest.mark.skipif("not power_of_two()")
@pytest.mark.parametrize("how", ["step", "closure"])
def test_adasum_combines_the_steps_of_the_ranks(how):
    """Beside steps that every rank makes for all ranks."""
    model = network()
    optimizer = hvd.DistributedOptimizer(OPTIMIZERS["Adam"](model.parameters()), model.named_parameters(),
                                         op=hvd.Adasum)
    alone = [network() for _ in range(hvd.size())]
    steppers = [OPTIMIZERS["Adam"](one.parameters()) for one in alone]
    for step in range(3):
        inputs, targets = data(step)
        start = [parameter.detach().clone() for parameter in model.parameters()]

        def closure():
            optimizer.zero_grad()
            loss = loss_of(model, part(inputs), part(targets))
            loss.backward()
            return loss

        if how == "closure":
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
        deltas = [own_step(one, stepper, start, part(inputs, rank), part(targets, rank))
                  for rank, (one, stepper) in enumerate(zip(alone, steppers))]
        assert_same_on_all_ranks(list(model.parameters()))
        for i, parameter in enumerate(model.parameters()):
            expected = start[i] + adasum_of([delta[i] for delta in deltas])
            assert torch.allclose(parameter, expected, atol=1e-5)


def own_step(model, optimizer, start, inputs, targets):
    """The change by a step of one rank from `start`."""
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), start):
            parameter.copy_(value)
    optimizer.zero_grad()
    loss_of(model, inputs, targets).backward()
    optimizer.step()
    return [parameter.detach() - value for parameter, value in zip(model.parameters(), start)]


@pytest.mark.skipif("not power_of_two() or hvd.size() == 1")
def test_what_an_adasum_optimizer_cannot():
    model = network()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(), op=hvd.Adasum)
    with pytest.raises(AssertionError, match="nothing to skip"):
        with optimizer.skip_synchronize():
            pass
    loss_of(model, *data(0)).backward()
    with pytest.raises(AssertionError, match="being reduced"):
        optimizer.zero_grad()
    with pytest.raises(AssertionError, match="backward_passes_per_step"):
        loss_of(model, *data(0)).backward()
    optimizer.synchronize()
    optimizer.step()
    optimizer.zero_grad()
    assert_same_on_all_ranks(list(model.parameters()))
