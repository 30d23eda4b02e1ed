"""muster.mxnet with the real MXNet: every rank computes what all ranks have."""

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon

import muster.mxnet as hvd

TYPES = [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int32, np.int64]


def values(rank, shape, dtype=np.float32):
    """The array of `rank`: small integers, so that sums are exact in every type."""
    return mx.nd.array(np.random.RandomState(rank).randint(1, 4, shape), dtype=dtype)


def everyone(*args):
    return [values(rank, *args).asnumpy() for rank in range(hvd.size())]


def assert_same(tensor, expected, dtype=np.float32):
    assert tensor.dtype == dtype
    np.testing.assert_array_equal(tensor.asnumpy(), expected)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.__name__)
def test_allreduce(dtype):
    total = sum(everyone((3, 5), dtype))
    mine = values(hvd.rank(), (3, 5), dtype)
    assert_same(hvd.allreduce(mine, average=False), total, dtype)
    assert_same(mine, values(hvd.rank(), (3, 5), dtype).asnumpy(), dtype)
    assert hvd.allreduce_(mine, op=hvd.Sum) is mine
    assert_same(mine, total, dtype)


def test_averages_and_groups():
    inputs = everyone((4,))
    np.testing.assert_allclose(hvd.allreduce(values(hvd.rank(), (4,))).asnumpy(), np.mean(inputs, 0), rtol=1e-6)
    mine = [values(hvd.rank(), (4,)), values(hvd.rank(), (2, 2), np.float64)]
    made = hvd.grouped_allreduce(mine, op=hvd.Sum, prescale_factor=0.5)
    assert_same(made[0], sum(inputs) / 2)
    assert_same(hvd.grouped_allreduce_(mine, op=hvd.Sum)[1], sum(everyone((2, 2))), np.float64)
    assert_same(mine[0], sum(inputs))


def test_what_moves():
    size, rank = hvd.size(), hvd.rank()
    ragged = [values(r, (r + 1, 3)) for r in range(size)]
    together = np.concatenate([each.asnumpy() for each in ragged])
    assert_same(hvd.allgather(ragged[rank]), together)
    assert_same(hvd.grouped_allgather([ragged[rank], ragged[rank]])[1], together)
    root = size - 1
    assert_same(hvd.broadcast(values(rank, (3,)), root), values(root, (3,)).asnumpy())
    mine = values(rank, (3,))
    assert hvd.broadcast_(mine, root) is mine
    assert_same(mine, values(root, (3,)).asnumpy())
    even = [values(r, (size,)) for r in range(size)]
    assert_same(hvd.alltoall(even[rank]), [each.asnumpy()[rank] for each in even])
    made, received = hvd.alltoall(even[rank], mx.nd.ones(size, dtype=np.int32))
    assert_same(made, [each.asnumpy()[rank] for each in even])
    assert received.asnumpy().tolist() == [1] * size
    total = sum(everyone((size, 2)))
    assert_same(hvd.reducescatter(values(rank, (size, 2)), op=hvd.Sum), total[rank:rank + 1])
    assert_same(hvd.grouped_reducescatter([values(rank, (size, 2))], op=hvd.Sum)[0], total[rank:rank + 1])


def test_splits_that_cannot_be():
    size = hvd.size()
    for tensor, splits in ((mx.nd.ones(size), mx.nd.ones(size)), (mx.nd.ones(size), mx.nd.ones(size + 1, dtype=np.int32)),
                           (mx.nd.ones(size + 1), mx.nd.ones(size, dtype=np.int32))):
        with pytest.raises(mx.base.MXNetError) as caught:
            hvd.alltoall(tensor, splits)
        assert isinstance(caught.value, ValueError)
    if size > 1:
        with pytest.raises(mx.base.MXNetError, match="evenly"):
            hvd.alltoall(mx.nd.ones(size + 1))


def test_objects():
    assert hvd.broadcast_object({"from": hvd.rank()}, hvd.size() - 1) == {"from": hvd.size() - 1}
    assert hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))


def net_of(seed):
    mx.random.seed(seed)
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Dense(6, activation="tanh"), gluon.nn.Dense(1))
    net.initialize(mx.init.Xavier())
    return net


def weights_of(net):
    return [parameter.data().asnumpy() for _, parameter in sorted(net.collect_params().items())]


def data():
    random = np.random.RandomState(3)
    x = random.randn(8 * hvd.size(), 4).astype(np.float32)
    return x, (x @ random.randn(4, 1)).astype(np.float32)


def train(net, trainer, x, y):
    for _ in range(10):
        with autograd.record():
            loss = gluon.loss.L2Loss()(net(mx.nd.array(x)), mx.nd.array(y))
        loss.backward()
        trainer.step(len(x))
    return weights_of(net)


@pytest.mark.parametrize("options", [{}, {"num_groups": 2}, {"gradient_predivide_factor": 2.0},
                                     {"compression": hvd.Compression.fp16}], ids=str)
def test_training_is_that_of_one_process_on_all_data(options):
    """Other ranks than 0 begin with other weights, whose shapes are not known before the first batch."""
    x, y = data()
    alone = net_of(0)
    expected = train(alone, gluon.Trainer(alone.collect_params(), "sgd", {"learning_rate": 0.1}), x, y)
    net = net_of(hvd.rank())
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, **options)
    made = train(net, trainer, x[hvd.rank()::hvd.size()], y[hvd.rank()::hvd.size()])
    for mine, whole in zip(made, expected):
        np.testing.assert_allclose(mine, whole, rtol=1e-4, atol=1e-2 if "compression" in options else 1e-5)
    bits = [weight.tobytes() for weight in made]
    assert all(others == bits for others in hvd.allgather_object(bits))


def test_parameters_that_are_known():
    net = net_of(hvd.rank())
    net(mx.nd.zeros((1, 4)))
    root = hvd.size() - 1
    expected = hvd.broadcast_object(weights_of(net), root)
    hvd.broadcast_parameters(net.collect_params(), root_rank=root)
    for mine, theirs in zip(weights_of(net), expected):
        np.testing.assert_array_equal(mine, theirs)
    plain = {"a": values(hvd.rank(), (3,)), "b": values(hvd.rank(), (2, 2))}
    hvd.broadcast_parameters(plain, root_rank=root)
    assert_same(plain["b"], values(root, (2, 2)).asnumpy())
    with pytest.raises(ValueError, match="dict"):
        hvd.broadcast_parameters([mx.nd.ones(1)])


def test_an_optimizer_of_a_module():
    optimizer = hvd.DistributedOptimizer(mx.optimizer.SGD(learning_rate=1.0))
    weight, gradient = mx.nd.zeros(3), mx.nd.ones(3) * (hvd.rank() + 1)
    optimizer.update(0, weight, gradient, optimizer.create_state(0, weight))
    np.testing.assert_allclose(weight.asnumpy(), [-(hvd.size() + 1) / 2] * 3, rtol=1e-6)
    optimizer.set_learning_rate(0.5)
    assert optimizer.learning_rate == 0.5
    with pytest.raises(ValueError, match="DistributedTrainer"):
        hvd.DistributedTrainer(net_of(0).collect_params(), optimizer)


def test_a_process_set():
    """Ranks outside it step by themselves."""
    with pytest.raises(ValueError, match="was not added, .*: give it to init"):
        hvd.DistributedOptimizer(mx.optimizer.SGD(), process_set=hvd.ProcessSet([0]))
    with pytest.raises(ValueError, match="was not added"):
        hvd.DistributedTrainer(net_of(0).collect_params(), "sgd", process_set=hvd.ProcessSet([0]))
    if hvd.size() < 3:
        return
    some = hvd.add_process_set([0, 1])
    expected = 0.5 if some.included() else hvd.rank()
    optimizer = hvd.DistributedOptimizer(mx.optimizer.SGD(learning_rate=1.0), process_set=some)
    weight = mx.nd.zeros(3)
    optimizer.update(0, weight, mx.nd.ones(3) * hvd.rank(), optimizer.create_state(0, weight))
    np.testing.assert_allclose(weight.asnumpy(), [-expected] * 3, rtol=1e-6)
    parameter = gluon.Parameter("weight", shape=(2,), init="zeros")
    parameter.initialize()
    trainer = hvd.DistributedTrainer({"weight": parameter}, "sgd", {"learning_rate": 1.0}, process_set=some)
    with autograd.record():
        loss = parameter.data().sum() * hvd.rank()
    loss.backward()
    trainer.step(1)
    np.testing.assert_allclose(parameter.data().asnumpy(), [-expected] * 2, rtol=1e-6)
    assert hvd.remove_process_set(some)


def test_names_of_horovod():
    import horovod.mxnet
    assert horovod.mxnet.DistributedTrainer is hvd.DistributedTrainer
