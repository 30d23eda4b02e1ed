"""muster.tensorflow in graphs and sessions of TensorFlow 1, whose operations are in no order."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import threading

import numpy as np
import pytest
import tensorflow as tf

import muster.tensorflow as hvd
from muster import numpy as arrays

v1 = tf.compat.v1
TIMEOUT_SECONDS = 60


@pytest.fixture
def session():
    """A session of a graph of its own that has one thread for its operations."""
    config = v1.ConfigProto(inter_op_parallelism_threads=1, use_per_session_threads=True,
                            operation_timeout_in_ms=TIMEOUT_SECONDS * 1000)
    with tf.Graph().as_default(), v1.Session(config=config) as made:
        yield made


def total(value):
    """The sum of `value` * (rank + 1) over all ranks."""
    return value * hvd.size() * (hvd.size() + 1) / 2


def mine(value, shape=(2,)):
    return tf.fill(shape, float(value) * (hvd.rank() + 1))


@pytest.fixture
def begun(monkeypatch):
    """Set when this rank begins an allreduce."""
    event = threading.Event()
    allreduce = arrays.allreduce

    def noted(*args, **options):
        event.set()
        return allreduce(*args, **options)

    monkeypatch.setattr(arrays, "allreduce", noted)
    return event


def test_operations_without_a_name_are_matched_by_their_nodes(session, begun):
    """Every second rank runs them the other way round."""
    one, other = (hvd.allreduce(mine(value), op=hvd.Sum) for value in (1, 100))
    made = {}
    first, second = (one, other) if hvd.rank() % 2 == 0 else (other, one)
    thread = threading.Thread(target=lambda: made.update({first: session.run(first)}))
    thread.start()
    assert begun.wait(TIMEOUT_SECONDS)
    made[second] = session.run(second)
    thread.join()
    assert made[one].tolist() == [total(1)] * 2
    assert made[other].tolist() == [total(100)] * 2


@pytest.mark.parametrize("is_named", [True, False], ids=["named", "unnamed"])
def test_waiting_operations_leave_the_threads_to_others(session, is_named):
    """Ranks make them in different orders, so that each begins with others than its neighbour does."""
    numbers = list(range(16))
    made = {}
    for number in numbers if hvd.rank() % 2 == 0 else reversed(numbers):
        given = tf.identity(mine(number), name=f"given_{number}")
        made[number] = hvd.allreduce(given, op=hvd.Sum, name=f"sum_{number}" if is_named else None)
    for _ in range(3):
        results = session.run([made[number] for number in numbers])
        assert [result.tolist() for result in results] == [[total(number)] * 2 for number in numbers]


def test_nodes_have_the_names_that_ranks_match(session, monkeypatch):
    names = []
    allreduce = arrays.allreduce
    monkeypatch.setattr(arrays, "allreduce", lambda *args, name, **options: (
        names.append(name), allreduce(*args, name=name, **options))[1])
    given = tf.identity(mine(1), name="given")
    with tf.name_scope("scope"):
        several = [hvd.allreduce(given, name="twice"), hvd.allreduce(given, name="twice"), hvd.allreduce(given)]
    with tf.name_scope(f"of_rank_{hvd.rank()}"):
        several.append(hvd.allreduce(given, name="alone", ignore_name_scope=True))
    session.run(several)
    assert set(names) == {"scope/twice", "scope/twice_1", "scope/allreduce_given_0", "alone"}


def test_all_operations_and_their_gradients(session):
    size, rank = hvd.size(), hvd.rank()
    x = tf.reshape(mine(1, (size * 2,)), (size, 2))
    made = {"allreduce": hvd.allreduce(x), "group": hvd.grouped_allreduce([x, 2 * x])[1],
            "allgather": hvd.allgather(x), "broadcast": hvd.broadcast(x, 0), "alltoall": hvd.alltoall(x),
            "reducescatter": hvd.reducescatter(x, op=hvd.Sum), "rank": hvd.rank_op(), "size": hvd.size_op()}
    gradients = {name: tf.gradients(tf.reduce_sum(made[name]), x)[0]
                 for name in ("allreduce", "group", "allgather", "broadcast", "alltoall", "reducescatter")}
    results, gradients = session.run([made, gradients])
    average = (size + 1) / 2
    np.testing.assert_allclose(results["allreduce"], np.full((size, 2), average), rtol=1e-6)
    np.testing.assert_allclose(results["group"], np.full((size, 2), 2 * average), rtol=1e-6)
    assert results["allgather"].tolist() == [[r + 1.0] * 2 for r in range(size) for _ in range(size)]
    assert results["broadcast"].tolist() == [[1.0, 1.0]] * size
    assert results["alltoall"].tolist() == [[r + 1.0] * 2 for r in range(size)]
    assert results["reducescatter"].tolist() == [[total(1)] * 2]
    assert (results["rank"], results["size"]) == (rank, size)
    expected = {"allreduce": 1, "group": 2, "allgather": 1, "broadcast": rank == 0, "alltoall": 1,
                "reducescatter": size}
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradient, np.full((size, 2), expected[name]), rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "reference"])
def test_a_broadcast_in_place_assigns(session, use_resource):
    root = hvd.size() - 1
    variables = [v1.get_variable(name, initializer=mine(value), use_resource=use_resource)
                 for name, value in (("a", 1), ("b", 10))]
    session.run(v1.global_variables_initializer())
    made = hvd.broadcast_(variables, root)
    assert session.run(variables[1]).tolist() == [10.0 * (hvd.rank() + 1)] * 2
    assert session.run(made[0]).tolist() == [root + 1.0] * 2
    assert [value.tolist() for value in session.run(variables)] == [[root + 1.0] * 2, [10.0 * (root + 1)] * 2]
    session.run(variables[0].assign(mine(7)))
    session.run(hvd.broadcast_variables(variables, 0))
    assert session.run(variables[0]).tolist() == [7.0, 7.0]


def test_a_branch_of_a_session(session):
    wanted = v1.placeholder(tf.bool)
    made = tf.cond(wanted, lambda: hvd.allreduce(mine(1), op=hvd.Sum), lambda: hvd.allreduce(mine(100), op=hvd.Sum))
    assert session.run(made, {wanted: True}).tolist() == [total(1)] * 2
    assert session.run(made, {wanted: False}).tolist() == [total(100)] * 2


def test_errors_are_those_of_horovod(session):
    if hvd.size() < 2:
        pytest.skip("needs two ranks")
    with pytest.raises(tf.errors.FailedPreconditionError, match="ranks differ"):
        session.run(hvd.allreduce(tf.ones(3 + hvd.rank())))
    with pytest.raises(tf.errors.FailedPreconditionError, match="ranks differ"):
        session.run(hvd.broadcast(tf.ones(2), hvd.rank()))
    with pytest.raises(tf.errors.InvalidArgumentError):
        session.run(hvd.alltoall(tf.ones(hvd.size() + 1)))
    assert session.run(hvd.allreduce(mine(1), op=hvd.Sum)).tolist() == [total(1)] * 2
