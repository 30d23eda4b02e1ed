"""What scripts written for Horovod's TensorFlow rely on: parameters in order, gradients, types of errors."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import inspect
import threading

import numpy as np
import pytest
import tensorflow as tf

import muster.tensorflow as hvd
from muster import numpy as arrays

EVERYWHERE = pytest.mark.parametrize("graph", [False, True], ids=["eager", "function"])
TIMEOUT_SECONDS = 60


def run(graph, function, *tensors):
    return (tf.function(function) if graph else function)(*tensors)


@pytest.mark.parametrize("function, parameters", [
    (hvd.allreduce, "tensor average device_dense device_sparse compression op prescale_factor postscale_factor name "
                    "process_set ignore_name_scope"),
    (hvd.grouped_allreduce, "tensors average device_dense device_sparse compression op prescale_factor "
                            "postscale_factor process_set ignore_name_scope name"),
    (hvd.allgather, "tensor name ignore_name_scope process_set"),
    (hvd.grouped_allgather, "tensors name ignore_name_scope process_set"),
    (hvd.broadcast, "tensor root_rank name ignore_name_scope process_set"),
    (hvd.broadcast_, "variables root_rank name process_set"),
    (hvd.broadcast_variables, "variables root_rank process_set inplace"),
    (hvd.alltoall, "tensor splits name ignore_name_scope process_set"),
    (hvd.reducescatter, "tensor device_dense compression op name process_set ignore_name_scope prescale_factor "
                        "postscale_factor"),
    (hvd.grouped_reducescatter, "tensors device_dense compression op process_set prescale_factor postscale_factor")],
                         ids=lambda each: getattr(each, "__name__", ""))
def test_parameters_are_in_the_order_of_horovod(function, parameters):
    """Additional ones are behind them."""
    parameters = parameters.split()
    assert list(inspect.signature(function).parameters)[:len(parameters)] == parameters


@EVERYWHERE
def test_gradients_are_averages(graph):
    """The upstream gradient of rank r is r + 1, everywhere."""
    size, rank = hvd.size(), hvd.rank()
    x = tf.ones((2, 3))
    average = (size + 1) / 2

    def gradient_of(function):
        def call(given):
            with tf.GradientTape() as tape:
                tape.watch(given)
                loss = tf.reduce_sum(function(given)) * (rank + 1)
            return tape.gradient(loss, given)
        return run(graph, call, x).numpy()

    np.testing.assert_allclose(gradient_of(hvd.allgather), np.full((2, 3), average))
    np.testing.assert_allclose(gradient_of(lambda t: hvd.grouped_allgather([t, 2 * t])[1]), np.full((2, 3), 2 * average))
    np.testing.assert_allclose(gradient_of(lambda t: hvd.broadcast(t, 0)), np.full((2, 3), average * (rank == 0)))
    np.testing.assert_allclose(gradient_of(lambda t: tf.gather(hvd.allgather(t), [0])),
                               np.array([[average] * 3, [0] * 3]) * (rank == 0))


@EVERYWHERE
@pytest.mark.parametrize("dtype", [tf.int32, tf.int64], ids=str)
def test_averages_of_integer_slices(graph, dtype):
    size, rank = hvd.size(), hvd.rank()
    values = tf.fill((1, 2), tf.cast(3 * (rank + 1), dtype))

    def alone(given):
        return hvd.allreduce(tf.IndexedSlices(given, tf.constant([rank]))).values

    def mixed(given):
        dense, sparse = hvd.grouped_allreduce([tf.cast(given, tf.float64), tf.IndexedSlices(given, tf.constant([rank]))])
        return dense, sparse.values

    expected = [[3 * (r + 1) / size] * 2 for r in range(size)]
    np.testing.assert_allclose(run(graph, alone, values), expected)
    dense, sparse = run(graph, mixed, values)
    np.testing.assert_allclose(sparse, expected)
    np.testing.assert_allclose(dense, [[3 * (size + 1) / 2] * 2])


@EVERYWHERE
def test_slices_cannot_be_reduced_otherwise(graph):
    slices = tf.IndexedSlices(tf.ones((1, 2)), tf.constant([0]), tf.constant([3, 2]))
    for options in ({"op": hvd.Min}, {"op": hvd.Max}, {"op": hvd.Product}, {"op": hvd.Adasum},
                    {"op": hvd.Sum, "prescale_factor": 0.5}, {"op": hvd.Sum, "postscale_factor": 0.5}):
        with pytest.raises(NotImplementedError, match="IndexedSlices"):
            run(graph, lambda o=options: hvd.allreduce(slices, **o))
        with pytest.raises(NotImplementedError, match="IndexedSlices"):
            run(graph, lambda o=options: hvd.grouped_allreduce([tf.ones(2), slices], **o))


@EVERYWHERE
def test_ranks_that_differ(graph):
    if hvd.size() < 2:
        pytest.skip("needs two ranks")
    rank, size = hvd.rank(), hvd.size()
    dtype = tf.int32 if rank % 2 == 0 else tf.float32
    for function in (lambda: hvd.allreduce(tf.ones(3 + rank)), lambda: hvd.allreduce(tf.ones(3, dtype), op=hvd.Sum),
                     lambda: hvd.allgather(tf.ones((2, 3 + rank))), lambda: hvd.broadcast(tf.ones(2), rank),
                     lambda: hvd.alltoall(tf.ones(size, dtype)), lambda: hvd.reducescatter(tf.ones((size, 3 + rank)))):
        with pytest.raises(tf.errors.FailedPreconditionError, match="ranks differ") as caught:
            run(graph, function)
        assert graph or isinstance(caught.value, hvd.HorovodInternalError)
    made = run(graph, lambda: hvd.allreduce(tf.ones(2), op=hvd.Sum))
    assert made.numpy().tolist() == [size, size]


@EVERYWHERE
def test_arguments_that_cannot_be(graph):
    size = hvd.size()
    for function in (lambda: hvd.alltoall(tf.ones(size), tf.fill([size], 2)), lambda: hvd.broadcast(tf.ones(2), size)):
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            run(graph, function)
        assert graph or isinstance(caught.value, ValueError)
    if size > 1:
        with pytest.raises(tf.errors.InvalidArgumentError):
            run(graph, lambda: hvd.alltoall(tf.ones(size + 1)))


@EVERYWHERE
def test_process_sets_that_cannot_be(graph):
    if hvd.size() < 2:
        pytest.skip("needs two ranks")
    of_others = [hvd.add_process_set([r]) for r in range(2)]
    other = of_others[1 if hvd.rank() == 0 else 0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in"):
        run(graph, lambda: hvd.allreduce(tf.ones(2), process_set=other))
    fake = hvd.ProcessSet([0])
    fake.process_set_id = 1000
    with pytest.raises(ValueError, match="1000"):
        run(graph, lambda: hvd.allreduce(tf.ones(2), process_set=fake))
    for each in of_others:
        assert hvd.remove_process_set(each)


def test_a_broadcast_in_place_gives_the_values():
    root = hvd.size() - 1
    for graph in (False, True):
        variables = [tf.Variable([float(hvd.rank())]), tf.Variable(hvd.rank())]
        made = run(graph, lambda v=variables: hvd.broadcast_(v, root))
        assert [value.numpy().tolist() for value in made] == [[float(root)], root]
        assert [value.numpy().tolist() for value in variables] == [[float(root)], root]


@pytest.mark.parametrize("kind", ["tape", "optimizer"])
def test_two_threads_reduce_at_once(kind, monkeypatch):
    """Under two names. Every second rank begins with the other one."""
    begun = threading.Event()
    begin = arrays.grouped_allreduce_async

    def noted(*args, **options):
        begun.set()
        return begin(*args, **options)

    monkeypatch.setattr(arrays, "grouped_allreduce_async", noted)
    variables = {"one": tf.Variable([0.0]), "other": tf.Variable([0.0, 0.0])}
    optimizers = {name: hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0), name=name, op=hvd.Sum)
                  for name in variables}
    made = {}

    def reduce(name):
        variable = variables[name]
        if kind == "optimizer":
            optimizers[name].apply_gradients([(tf.ones_like(variable) * (hvd.rank() + 1), variable)])
            made[name] = -variable.numpy()
        else:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(variable) * (hvd.rank() + 1)
            tape = hvd.DistributedGradientTape(tape, op=hvd.Sum, name=name)
            made[name] = tape.gradient(loss, variable).numpy()

    first, second = ("one", "other") if hvd.rank() % 2 == 0 else ("other", "one")
    thread = threading.Thread(target=reduce, args=(first,))
    thread.start()
    assert hvd.size() == 1 or begun.wait(TIMEOUT_SECONDS)
    reduce(second)
    thread.join()
    total = hvd.size() * (hvd.size() + 1) / 2
    assert {name: value.tolist() for name, value in made.items()} == {"one": [total], "other": [total] * 2}
