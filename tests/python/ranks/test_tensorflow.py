"""muster.tensorflow with the real TensorFlow: every rank computes what all ranks have."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pytest
import tensorflow as tf

import muster.tensorflow as hvd

FLOATS = [tf.float16, tf.bfloat16, tf.float32, tf.float64]
TYPES = [*FLOATS, tf.int8, tf.uint8, tf.int16, tf.int32, tf.int64]
SHAPES = [(), (7,), (0,), (3, 5), (2, 0, 4)]
EVERYWHERE = pytest.mark.parametrize("graph", [False, True], ids=["eager", "function"])


def values(rank, shape, dtype=tf.float32):
    """The tensor of `rank`: small integers, so that sums are exact in every type."""
    return tf.cast(tf.constant(np.random.RandomState(rank).randint(1, 4, shape)), dtype)


def everyone(*args):
    return [values(rank, *args) for rank in range(hvd.size())]


def run(graph, function, *tensors):
    return (tf.function(function) if graph else function)(*tensors)


def assert_same(tensor, expected):
    expected = tf.convert_to_tensor(expected)
    assert (tensor.dtype, tensor.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(tensor.numpy().astype(np.float64), expected.numpy().astype(np.float64))


def assert_same_on_all_ranks(tensors):
    bits = [tf.convert_to_tensor(tensor).numpy().tobytes() for tensor in tensors]
    assert all(others == bits for others in hvd.allgather_object(bits))


@EVERYWHERE
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_allreduce(graph, dtype):
    for shape in SHAPES:
        inputs = everyone(shape, dtype)
        made = run(graph, lambda x: hvd.allreduce(x, op=hvd.Sum), inputs[hvd.rank()])
        assert_same(made, tf.add_n(inputs))


@EVERYWHERE
def test_average_scales_and_other_reductions(graph):
    inputs = everyone((4, 3))
    mine = inputs[hvd.rank()]
    stacked = tf.stack(inputs)
    np.testing.assert_allclose(run(graph, hvd.allreduce, mine), tf.reduce_mean(stacked, 0), rtol=1e-6)
    assert_same(run(graph, lambda x: hvd.allreduce(x, op=hvd.Min), mine), tf.reduce_min(stacked, 0))
    assert_same(run(graph, lambda x: hvd.allreduce(x, op=hvd.Max), mine), tf.reduce_max(stacked, 0))
    assert_same(run(graph, lambda x: hvd.allreduce(x, op=hvd.Product), mine), tf.reduce_prod(stacked, 0))
    scaled = run(graph, lambda x: hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0), mine)
    assert_same(scaled, tf.reduce_sum(stacked, 0) * 2.0)
    assert_same(run(graph, lambda x: hvd.allreduce(x, average=False), mine), tf.reduce_sum(stacked, 0))
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        made = run(graph, lambda x: hvd.allreduce(x, op=hvd.Sum, compression=compression), mine)
        assert_same(made, tf.reduce_sum(stacked, 0))


@EVERYWHERE
def test_grouped_allreduce(graph):
    inputs = [everyone((3,)), everyone((2, 2), tf.float64)]
    made = run(graph, lambda *given: hvd.grouped_allreduce(given, op=hvd.Sum), *(each[hvd.rank()] for each in inputs))
    for tensor, each in zip(made, inputs):
        assert_same(tensor, tf.add_n(each))


@EVERYWHERE
def test_ragged_allgather(graph):
    inputs = [values(rank, (rank, 3)) for rank in range(hvd.size())]
    assert_same(run(graph, hvd.allgather, inputs[hvd.rank()]), tf.concat(inputs, 0))
    several = [[values(rank, (rank + 1,)), values(rank, (2, 2))] for rank in range(hvd.size())]
    made = run(graph, lambda *given: hvd.grouped_allgather(given), *several[hvd.rank()])
    for tensor, parts in zip(made, zip(*several)):
        assert_same(tensor, tf.concat(parts, 0))


@EVERYWHERE
def test_broadcast(graph):
    root = hvd.size() - 1
    for dtype in TYPES:
        assert_same(run(graph, lambda x: hvd.broadcast(x, root), values(hvd.rank(), (5,), dtype)),
                    values(root, (5,), dtype))


@EVERYWHERE
def test_alltoall(graph):
    size, rank = hvd.size(), hvd.rank()
    rows = [[rank_from + to for to in range(size)] for rank_from in range(size)]
    inputs = [values(r, (sum(rows[r]), 2)) for r in range(size)]
    parts = [tf.split(tensor, rows[r]) for r, tensor in enumerate(inputs)]
    made, received = run(graph, hvd.alltoall, inputs[rank], tf.constant(rows[rank]))
    assert_same(made, tf.concat([part[rank] for part in parts], 0))
    assert received.numpy().tolist() == [rows[r][rank] for r in range(size)]
    even = [values(r, (size * 2,)) for r in range(size)]
    assert_same(run(graph, hvd.alltoall, even[rank]), tf.concat([tf.split(each, size)[rank] for each in even], 0))


@EVERYWHERE
def test_reducescatter(graph):
    size, rank = hvd.size(), hvd.rank()
    inputs = everyone((size + 1, 2))
    rows = [2] + [1] * (size - 1)
    expected = tf.split(tf.add_n(inputs), rows)[rank]
    assert_same(run(graph, lambda x: hvd.reducescatter(x, op=hvd.Sum), inputs[rank]), expected)
    assert_same(run(graph, lambda x: hvd.grouped_reducescatter([x, x], op=hvd.Sum), inputs[rank])[1], expected)


@EVERYWHERE
def test_gradients(graph):
    """With weights that differ by rank, which make the upstream gradients differ."""
    size, rank = hvd.size(), hvd.rank()
    x = values(rank, (size, 2))
    weight = tf.cast(rank + 1, tf.float32)
    all_weights = size * (size + 1) / 2

    def gradient_of(function):
        def call(given):
            with tf.GradientTape() as tape:
                tape.watch(given)
                loss = tf.reduce_sum(function(given)) * weight
            return tape.gradient(loss, given)
        return run(graph, call, x)

    ones = tf.ones_like(x)
    assert_same(gradient_of(lambda t: hvd.allreduce(t, op=hvd.Sum)), ones * all_weights)
    np.testing.assert_allclose(gradient_of(hvd.allreduce), ones * all_weights / size, rtol=1e-6)
    assert_same(gradient_of(lambda t: hvd.grouped_allreduce([t, 2 * t], op=hvd.Sum)[1]), ones * all_weights * 2)
    np.testing.assert_allclose(gradient_of(hvd.allgather), ones * all_weights / size, rtol=1e-6)
    np.testing.assert_allclose(gradient_of(lambda t: hvd.broadcast(t, 0)), ones * all_weights / size * (rank == 0),
                               rtol=1e-6)
    back = tf.reshape(tf.range(1, size + 1, dtype=tf.float32), (size, 1)) * ones
    assert_same(gradient_of(hvd.alltoall), back)
    assert_same(gradient_of(lambda t: hvd.alltoall(t, [1] * size)[0]), back)
    assert_same(gradient_of(lambda t: hvd.reducescatter(t, op=hvd.Average)), back)
    assert_same(gradient_of(lambda t: hvd.reducescatter(t, op=hvd.Sum)), back * size)


@EVERYWHERE
def test_sparse(graph):
    size, rank = hvd.size(), hvd.rank()

    def call(values_of_rank):
        slices = tf.IndexedSlices(values_of_rank, tf.constant([rank, rank + 1]), tf.constant([size + 1, 2]))
        made = hvd.allreduce(slices, op=hvd.Average)
        return tf.convert_to_tensor(made)

    expected = np.zeros((size + 1, 2), np.float32)
    for r in range(size):
        expected[r:r + 2] += values(r, (2, 2)).numpy() / size
    np.testing.assert_allclose(run(graph, call, values(rank, (2, 2))), expected, rtol=1e-6)
    with pytest.raises(NotImplementedError, match="IndexedSlices"):
        hvd.allreduce(tf.IndexedSlices(tf.ones((1, 2)), [0], [3, 2]), op=hvd.Max)


@EVERYWHERE
def test_questions_of_a_graph(graph):
    ask = run(graph, lambda: [hvd.size_op(), hvd.rank_op(), hvd.local_size_op(), hvd.local_rank_op(),
                              hvd.process_set_included_op(0)])
    assert [int(each) for each in ask] == [hvd.size(), hvd.rank(), hvd.local_size(), hvd.local_rank(), 1]


def test_many_operations_of_a_graph_are_in_one_order():
    """More of them than TensorFlow has threads, of which each blocks one."""
    @tf.function
    def call(x):
        return [hvd.allreduce(x * i, op=hvd.Sum) for i in range(40)]

    total = tf.add_n(everyone((3,)))
    for _ in range(3):
        for i, made in enumerate(call(values(hvd.rank(), (3,)))):
            assert_same(made, total * i)


def test_process_sets():
    if hvd.size() < 2:
        pytest.skip("needs two ranks")
    some = hvd.add_process_set(list(range(1, hvd.size())))
    if some.included():
        assert_same(hvd.allreduce(values(hvd.rank(), (3,)), op=hvd.Sum, process_set=some),
                    tf.add_n(everyone((3,))[1:]))
        assert int(hvd.size_op(some.process_set_id)) == hvd.size() - 1
    assert int(hvd.process_set_included_op(some.process_set_id)) == (hvd.rank() > 0)
    assert hvd.remove_process_set(some)


@EVERYWHERE
def test_gradients_of_a_process_set(graph):
    """Ranks outside it keep their own."""
    if hvd.size() < 3:
        pytest.skip("needs three ranks")
    some = hvd.add_process_set([0, 1])
    weight, local = tf.Variable([0.0, 0.0]), tf.Variable([1.0])
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0), process_set=some)

    def step(scale):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weight) * tf.reduce_sum(local) * scale
        optimizer.apply_gradients([(tf.fill((2,), scale), weight)])
        tape = hvd.DistributedGradientTape(tape, process_set=some)
        tape.register_local_source(local)
        return tape.gradient(loss, [weight, local])

    made, _ = run(graph, step, tf.constant(float(hvd.rank())))
    expected = 0.5 if some.included() else float(hvd.rank())
    assert_same(made, tf.fill((2,), expected))
    assert_same(weight, tf.fill((2,), -expected))
    assert hvd.remove_process_set(some)


def test_a_process_set_that_was_not_added():
    for make in (lambda some: hvd.DistributedGradientTape(tf.GradientTape(), process_set=some),
                 lambda some: hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0), process_set=some),
                 lambda some: hvd.alltoall(tf.ones(2), process_set=some)):
        with pytest.raises(ValueError, match=r"ranks=\[0\], mpi_comm=None\) was not added, .*: give it to init"):
            make(hvd.ProcessSet([0]))


def test_variables_and_objects():
    root = hvd.size() - 1
    variables = [tf.Variable(values(hvd.rank(), shape)) for shape in ((3,), (2, 2), ())]
    hvd.broadcast_variables(variables, root_rank=root)
    for variable in variables:
        assert_same(variable, values(root, tuple(variable.shape)))
    variables[0].assign([float(hvd.rank())] * 3)
    tf.function(lambda: hvd.broadcast_variables(variables[:1], root))()
    assert_same(variables[0], tf.fill([3], float(root)))
    assert hvd.broadcast_object({"from": hvd.rank()}, root) == {"from": root}
    assert hvd.broadcast_object_fn(root)([hvd.rank()]) == [root]
    assert hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))
    with pytest.raises(RuntimeError, match="broadcast_variables"):
        hvd.broadcast_global_variables(0)


def test_a_session_of_tensorflow_1():
    with tf.Graph().as_default():
        variable = tf.compat.v1.get_variable("w", initializer=tf.cast(tf.fill([3], hvd.rank()), tf.float32))
        optimizer = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(1.0))
        assert isinstance(optimizer._optimizer, tf.compat.v1.train.GradientDescentOptimizer)  # Horovod's name for it
        step = optimizer.minimize(tf.reduce_sum(variable) * (hvd.rank() + 1))
        hook = hvd.BroadcastGlobalVariablesHook(hvd.size() - 1)
        with tf.compat.v1.train.MonitoredSession(hooks=[hook]) as session:
            assert session.run(variable).tolist() == [hvd.size() - 1] * 3
            session.run(step)
            expected = hvd.size() - 1 - (hvd.size() + 1) / 2
            np.testing.assert_allclose(session.run(variable), [expected] * 3, rtol=1e-6)


@EVERYWHERE
@pytest.mark.parametrize("options", [{}, {"op": hvd.Sum}, {"groups": 2}, {"num_groups": 1}, {"sparse_as_dense": True},
                                     {"gradient_predivide_factor": 2.0}, {"compression": hvd.Compression.bf16}],
                         ids=str)
def test_tape(graph, options):
    """Beside the gradients that this rank computes of all ranks' data."""
    size = hvd.size()
    table, weights = tf.Variable(values(99, (4, 2))), tf.Variable(values(98, (2, 3)))
    unused = tf.Variable(1.0)
    rows = [tf.constant([rank % 4, 1]) for rank in range(size)]

    def loss_of(mine):
        return tf.reduce_sum(tf.nn.embedding_lookup(table, mine) @ weights)

    def call(mine):
        with tf.GradientTape() as tape:
            loss = loss_of(mine)
        tape = hvd.DistributedGradientTape(tape, **options)
        assert isinstance(tape, tf.GradientTape)
        found = tape.gradient(loss, {"table": table, "others": [weights, unused]})
        assert found["others"][1] is None
        return tf.convert_to_tensor(found["table"]), found["others"][0]

    with tf.GradientTape() as tape:
        losses = tf.add_n([loss_of(each) for each in rows])
    expected = tape.gradient(losses, [table, weights])
    share = 1.0 if options.get("op") == hvd.Sum else 1.0 / size
    for made, whole in zip(run(graph, call, rows[hvd.rank()]), expected):
        rounding = 1e-2 if "compression" in options else 1e-6
        np.testing.assert_allclose(made, tf.convert_to_tensor(whole) * share, rtol=rounding)


@pytest.mark.parametrize("passes", [1, 2])
def test_ranks_that_trace_unequally(passes):
    """The last rank meets a batch of another shape, and makes its graph again, when the others do not."""
    weight = tf.Variable([[1.0], [2.0]])
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.0), backward_passes_per_step=passes)
    traced = []

    @tf.function
    def step(x):
        traced.append(x.shape[0])
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x @ weight)
        optimizer.apply_gradients([(tf.ones_like(weight), weight)])
        return hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, weight)

    is_last = hvd.rank() == hvd.size() - 1
    for rows in (4, 3, 4, 2):
        total = 4 * (hvd.size() - 1) + rows
        assert_same(step(tf.ones((rows if is_last else 4, 2))), tf.fill((2, 1), float(total)))
    assert len(set(traced)) == (3 if is_last else 1)


def test_several_passes_keep_their_place_among_the_operations_of_a_graph():
    """They are in a branch, which TensorFlow would order by its variables alone."""
    weight = tf.Variable([1.0, 2.0])
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.0), backward_passes_per_step=2)

    @tf.function
    def step():
        before = hvd.allreduce(tf.ones(1))
        optimizer.apply_gradients([(tf.ones(2), weight)])
        return before, hvd.allreduce(tf.ones(1))

    def all_before(operation):
        found, new = set(), {operation}
        while new:
            found |= new
            new = {each for old in new for each in [*old.control_inputs, *(tensor.op for tensor in old.inputs)]} - found
        return found

    operations = step.get_concrete_function().graph.get_operations()
    before, after = (each for each in operations if each.type in ("PyFunc", "EagerPyFunc"))
    branches = [each for each in operations if each.type in ("If", "StatelessIf")]
    assert len(branches) == 2  # of what is reduced, and of what is applied
    assert all(before in all_before(branch) and branch in all_before(after) for branch in branches)


@EVERYWHERE
def test_names_are_the_same_in_every_step(graph, monkeypatch):
    """Which is what the engine's cache is for. Two tapes of one graph have two."""
    names = []
    begin = hvd.operations.arrays.grouped_allreduce_async

    def noted(*args, name, **options):
        names.append(name)
        return begin(*args, name=name, **options)

    monkeypatch.setattr(hvd.operations.arrays, "grouped_allreduce_async", noted)
    weight = tf.Variable([1.0, 2.0])

    def step(x):
        with tf.GradientTape() as one, tf.GradientTape() as other:
            loss = tf.reduce_sum(x * weight)
        return [hvd.DistributedGradientTape(tape).gradient(loss, weight) for tape in (one, other)]

    call = tf.function(step) if graph else step
    for _ in range(3):
        call(tf.ones(2))
    several = hvd.size() > 1
    assert len(names) == 6 * several and len(set(names)) == (2 if graph else 1) * several, names


def test_gradients_that_stay_local():
    size, rank = hvd.size(), hvd.rank()
    local, shared = tf.Variable([1.0, 2.0]), tf.Variable([3.0, 4.0])
    for scales in (True, False):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(local * shared) * (rank + 1)
        tape = hvd.DistributedGradientTape(tape, op=hvd.Sum, scale_local_gradients=scales)
        tape.register_local_source(local)
        mine, total = tape.gradient(loss, [local, shared])
        np.testing.assert_allclose(mine, shared * (rank + 1) / (size if scales else 1), rtol=1e-6)
        np.testing.assert_allclose(total, local * size * (size + 1) / 2, rtol=1e-6)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(local * shared) * (rank + 1)
    tape = hvd.DistributedGradientTape(tape, op=hvd.Sum, scale_local_gradients=False)
    tape.register_local_source(local)
    [(first, mine)], [(second, total)] = tape.get_local_and_global_gradients(loss, [shared, local],
                                                                             use_generic_names=True)
    assert first is local and second is shared
    np.testing.assert_allclose(mine, shared * (rank + 1), rtol=1e-6)
    np.testing.assert_allclose(total, local * size * (size + 1) / 2, rtol=1e-6)
    dense = tf.keras.layers.Dense(2)
    dense.build((None, 2))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(dense(tf.ones((1, 2)))) * (rank + 1) * tf.reduce_sum(shared)
    tape = hvd.PartialDistributedGradientTape(tape, local_layers=dense, op=hvd.Sum)
    mine = tape.gradient(loss, dense.trainable_weights)[1]
    np.testing.assert_allclose(mine, tf.ones(2) * 7.0 * (rank + 1) / size, rtol=1e-6)


def test_training_is_that_of_one_process_on_all_data():
    size, rank = hvd.size(), hvd.rank()
    data = np.random.RandomState(7).randn(8 * size, 5).astype(np.float32)
    target = np.random.RandomState(8).randn(8 * size, 1).astype(np.float32)
    start = np.random.RandomState(9).randn(5, 1).astype(np.float32)

    def train(x, y, wrap):
        weight = tf.Variable(start)

        @tf.function
        def step():
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(x @ weight - y))
            weight.assign_sub(0.1 * wrap(tape).gradient(loss, weight))

        for _ in range(20):
            step()
        return weight

    alone = train(data, target, lambda tape: tape)
    together = train(data[rank::size], target[rank::size], hvd.DistributedGradientTape)
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5)
    assert_same_on_all_ranks([together])


def test_ranks_that_differ_are_told_and_go_on():
    if hvd.size() < 2:
        pytest.skip("needs two ranks")
    with pytest.raises(hvd.HorovodInternalError, match="ranks differ"):
        hvd.allreduce(tf.ones(3 + hvd.rank()), name="differs")
    with pytest.raises(tf.errors.FailedPreconditionError, match="ranks differ"):
        tf.function(lambda x: hvd.allreduce(x, name="differs"))(tf.ones(3 + hvd.rank()))
    assert_same(hvd.allreduce(tf.ones(3), op=hvd.Sum), tf.fill([3], float(hvd.size())))


def test_settings_that_cannot_be():
    with pytest.raises(ValueError, match="predivide"):
        hvd.DistributedGradientTape(tf.GradientTape(), op=hvd.Sum, gradient_predivide_factor=2.0)
    with pytest.raises(ValueError, match="neither an optimizer"):
        hvd.DistributedOptimizer(object())
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1))
    with pytest.raises(ValueError, match="already"):
        hvd.DistributedOptimizer(optimizer)


def test_elastic_state():
    variable = tf.Variable([float(hvd.rank())])
    state = hvd.elastic.TensorFlowState([variable], epoch=hvd.rank())

    @hvd.elastic.run
    def train(state):
        assert (variable.numpy()[0], state.epoch) == (0.0, 0)
        variable.assign([5.0])
        state.epoch = 3
        state.commit()
        variable.assign([6.0])
        state.epoch = 4
        state.restore()
        return variable.numpy()[0], state.epoch

    assert train(state) == (5.0, 3)


def test_join():
    for _ in range(hvd.rank()):
        hvd.allreduce(tf.ones(2), op=hvd.Sum, name="uneven")
    assert 0 <= hvd.join() < hvd.size()
