"""muster.tensorflow.keras with the real Keras, 2 or 3: every rank trains as one process would on all data."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pytest
import tensorflow as tf

import muster.keras
import muster.tensorflow as hvd_tf
import muster.tensorflow.keras as hvd

keras = tf.keras
IS_KERAS_3 = hasattr(keras.optimizers.Optimizer, "apply")
ROWS = 8


def data(rows):
    random = np.random.RandomState(3)
    x = random.randn(rows, 4).astype(np.float32)
    return x, (x @ random.randn(4, 1)).astype(np.float32)


def own_part(arrays):
    return [array[hvd.rank()::hvd.size()] for array in arrays]


def model_of(seed, extra=()):
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.layers.Dense(6, activation="tanh"), *extra, keras.layers.Dense(1)])
    model.build((None, 4))
    return model


def optimizers():
    found = [keras.optimizers.SGD, keras.optimizers.Adam]
    return found if IS_KERAS_3 else [*found, keras.optimizers.legacy.Adam]


def fit(model, optimizer, x, y, callbacks=(), epochs=4):
    """On all of the data in every step."""
    model.compile(optimizer, loss="mse")
    return model.fit(x, y, batch_size=len(x), epochs=epochs, shuffle=False, verbose=0, callbacks=list(callbacks))


def assert_same_on_all_ranks(model):
    bits = [weight.tobytes() for weight in model.get_weights()]
    assert all(others == bits for others in hvd.allgather_object(bits))


@pytest.mark.parametrize("kind", optimizers(), ids=lambda kind: kind.__module__.split(".")[-2] + kind.__name__)
def test_fit_is_that_of_one_process_on_all_data(kind):
    """Other ranks than 0 begin with other weights, and get those of rank 0."""
    whole = data(ROWS * hvd.size())
    alone, together = model_of(0), model_of(hvd.rank())
    fit(alone, kind(0.05), *whole)
    fit(together, hvd.DistributedOptimizer(kind(0.05)), *own_part(whole),
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    assert isinstance(together.optimizer, kind)
    for mine, expected in zip(together.get_weights(), alone.get_weights()):
        np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-5)
    assert_same_on_all_ranks(together)


def test_passes_that_add_up():
    """Two passes over halves of the data, averaged, are one over all of it."""
    x, y = data(2 * ROWS * hvd.size())
    alone, together = model_of(0), model_of(0)
    fit(alone, keras.optimizers.SGD(0.05), x, y, epochs=3)
    mine_x, mine_y = own_part((x, y))
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.05), backward_passes_per_step=2,
                                         average_aggregated_gradients=True)
    together.compile(optimizer, loss="mse")
    together.fit(mine_x, mine_y, batch_size=len(mine_x) // 2, epochs=3, shuffle=False, verbose=0,
                 callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    for mine, expected in zip(together.get_weights(), alone.get_weights()):
        np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-5)
    assert int(optimizer.iterations) == 6  # passes, as Horovod counts


def test_a_model_that_is_built_by_its_first_batch():
    whole = data(ROWS * hvd.size())
    keras.utils.set_random_seed(hvd.rank())
    model = keras.Sequential([keras.layers.Dense(6, activation="tanh"), keras.layers.Dense(1)])
    fit(model, hvd.DistributedOptimizer(keras.optimizers.Adam(0.05)), *own_part(whole),
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    assert_same_on_all_ranks(model)


@pytest.mark.parametrize("is_registered", [False, True])
def test_variables_that_are_not_broadcast(is_registered):
    root = hvd.size() - 1
    model = model_of(0)
    for weight in model.weights:
        weight.assign(tf.fill(weight.shape, float(hvd.rank())))
    local = model.layers[0].variables
    if is_registered:
        callback = hvd.callbacks.BroadcastGlobalVariablesCallback(root)
        for variable in local:
            callback.register_local_var(variable)
    else:
        callback = hvd.callbacks.BroadcastGlobalVariablesCallback(root, local_variables=local)
    x, y = data(ROWS)
    fit(model, keras.optimizers.SGD(0.0), x, y, callbacks=[callback], epochs=1)
    for layer, expected in ((model.layers[0], hvd.rank()), (model.layers[-1], root)):
        assert all(np.all(weight == expected) for weight in layer.get_weights())
    with pytest.raises(ValueError, match="local_variables"):
        hvd.callbacks.BroadcastGlobalVariablesCallback(0, local_variables=["kernel"])
    assert hvd.callbacks.BroadcastGlobalVariablesCallback(0, local_variables=local[0])


@pytest.mark.skipif(IS_KERAS_3, reason="optimizers of Keras 3 compute no gradients")
@pytest.mark.parametrize("kind", [] if IS_KERAS_3 else [keras.optimizers.SGD, keras.optimizers.legacy.SGD],
                         ids=lambda kind: kind.__module__)
def test_computed_gradients_are_those_of_all_ranks(kind):
    """What a script does to them before they are applied stays, and they are not reduced once more."""
    optimizer = hvd.DistributedOptimizer(kind(1.0), op=hvd.Sum)
    total = hvd.size() * (hvd.size() + 1) / 2
    for method in ("compute_gradients", "_compute_gradients"):
        variable = tf.Variable([5.0])

        @tf.function
        def step():
            pairs = getattr(optimizer, method)(lambda: tf.reduce_sum(variable) * (hvd.rank() + 1), [variable])
            optimizer.apply_gradients([(gradient * 10.0, each) for gradient, each in pairs])
            return pairs[0][0]

        np.testing.assert_allclose(step(), [total])
        np.testing.assert_allclose(variable, [5.0 - 10.0 * total])
        optimizer = hvd.DistributedOptimizer(kind(1.0), op=hvd.Sum)
    optimizer.minimize(lambda: tf.reduce_sum(variable) * (hvd.rank() + 1), [variable])
    np.testing.assert_allclose(variable, [5.0 - 11.0 * total])


@pytest.mark.skipif(IS_KERAS_3, reason="optimizers of Keras 3 compute no gradients")
@pytest.mark.parametrize("is_average", [False, True])
def test_computed_gradients_of_several_passes(is_average):
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), backward_passes_per_step=4, sparse_as_dense=True,
                                         average_aggregated_gradients=is_average)
    x, y = tf.Variable([0.0]), tf.Variable([1.0, 2.0])

    @tf.function
    def step():
        pairs = optimizer._compute_gradients(lambda: x - (hvd.rank() + 1) * tf.gather(y, [0]), var_list=[x, y])
        optimizer.apply_gradients(pairs, experimental_aggregate_gradients=False)

    for done in range(1, 11):
        step()
        passes = done // 4 * (1 if is_average else 4)
        np.testing.assert_allclose(x, [-passes], rtol=1e-6)
        np.testing.assert_allclose(y, [1.0 + passes * (hvd.size() + 1) / 2, 2.0], rtol=1e-6)
        assert int(optimizer.iterations) == done
        assert int(optimizer._agg_helper.counter) == done % 4


def test_a_loop_of_ones_own():
    """apply_gradients() outside fit(), eagerly."""
    variable = tf.Variable([1.0, 2.0])
    optimizer = hvd_tf.DistributedOptimizer(keras.optimizers.SGD(1.0), op=hvd.Sum)
    optimizer.apply_gradients([(tf.constant([1.0, 1.0]) * (hvd.rank() + 1), variable)])
    total = hvd.size() * (hvd.size() + 1) / 2
    np.testing.assert_allclose(variable, [1.0 - total, 2.0 - total], rtol=1e-6)


def test_layers_that_stay_local():
    local = keras.layers.Dense(5)
    model = model_of(0, [local])
    optimizer = hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.1), local_layers=[local],
                                                scale_local_gradients=False)
    x, y = data(ROWS * hvd.size())
    mine = own_part((x, y))
    fit(model, optimizer, *mine, callbacks=[hvd.callbacks.MetricAverageCallback()], epochs=1)
    kernels = hvd.allgather_object([weight.numpy() for weight in local.trainable_weights])
    others = hvd.allgather_object(model.layers[-1].get_weights())
    for r in range(1, hvd.size()):
        assert not np.array_equal(kernels[0][0], kernels[r][0])
        assert np.array_equal(others[0][0], others[r][0])


def test_metrics_are_averaged():
    model = model_of(0)
    x, y = data(ROWS)
    seen = []
    after = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(dict(logs)))
    history = fit(model, keras.optimizers.SGD(0.0), x, y + hvd.rank(), epochs=2,
                  callbacks=[hvd.callbacks.MetricAverageCallback(), after])
    alone = np.mean(hvd.allgather_object(float(np.mean((y + hvd.rank() - model.predict(x, verbose=0)) ** 2))))
    assert [each["loss"] for each in seen] == pytest.approx([alone] * 2, rel=1e-4)
    assert history.history["loss"] == pytest.approx([alone] * 2, rel=1e-4)


def rates(callback, epochs, batches=4):
    """The learning rate in every batch."""
    seen = []
    model = model_of(0)
    note = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: seen.append(float(model.optimizer.learning_rate)))
    model.compile(keras.optimizers.SGD(0.5), loss="mse")
    x, y = data(batches)
    model.fit(x, y, batch_size=1, epochs=epochs, verbose=0, callbacks=[callback, note])
    return seen


def test_warmup():
    size = hvd.size()
    seen = rates(hvd.callbacks.LearningRateWarmupCallback(0.8, warmup_epochs=2, verbose=1), 3)
    expected = [0.8 / size * (1 + (size - 1) * min((batch + 1) / 8, 1.0)) for batch in range(12)]
    assert seen == pytest.approx(expected, rel=1e-5)


def test_schedule():
    staircase = hvd.callbacks.LearningRateScheduleCallback(1.0, lambda epoch: 0.1 ** epoch, start_epoch=1, end_epoch=3)
    assert rates(staircase, 4, 2) == pytest.approx([0.5] * 2 + [0.1] * 2 + [0.01] * 4, rel=1e-5)
    smooth = hvd.callbacks.LearningRateScheduleCallback(1.0, lambda epoch: 1 + epoch, staircase=False,
                                                        steps_per_epoch=2)
    assert rates(smooth, 2, 2) == pytest.approx([1.0, 1.5, 2.0, 2.5], rel=1e-5)
    with pytest.raises(ValueError, match="initial_lr"):
        hvd.callbacks.LearningRateScheduleCallback(None, 1.0)


def test_a_model_is_saved_and_loaded(tmp_path):
    x, y = data(ROWS)
    model = model_of(0)
    fit(model, hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), x, y,
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    path = str(tmp_path / "model.keras")
    model.save(path)
    plain = keras.models.load_model(path)
    assert type(plain.optimizer).__mro__[0] is keras.optimizers.Adam
    loaded = hvd.load_model(path)
    assert isinstance(loaded.optimizer, keras.optimizers.Adam)
    loaded.fit(x, y + hvd.rank(), epochs=1, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    assert_same_on_all_ranks(loaded)
    assert int(loaded.optimizer.iterations) == int(plain.optimizer.iterations) + 1


def test_the_best_model_is_kept_by_rank_0(tmp_path):
    x, y = data(ROWS)
    path = tmp_path / "best.keras"
    fit(model_of(0), keras.optimizers.SGD(0.05), x, y,
        callbacks=[hvd.callbacks.BestModelCheckpoint(str(path), monitor="loss")])
    assert path.exists() == (hvd.rank() == 0)


def test_batch_normalization_over_all_ranks():
    """Ranks with different numbers of rows: mean and variance are those of all rows, gradients too."""
    rows = [2 + rank for rank in range(hvd.size())]
    ends = np.cumsum([0] + rows)
    whole = np.random.RandomState(5).randn(ends[-1], 4).astype(np.float32) * 3 + 1
    mine = tf.constant(whole[ends[hvd.rank()]:ends[hvd.rank() + 1]])
    plain = keras.layers.BatchNormalization(momentum=0.5)
    together = hvd_tf.SyncBatchNormalization(momentum=0.5)
    weight = tf.reshape(tf.range(4.0), (1, 4)) + 1.0

    def gradient_of(layer, given):
        with tf.GradientTape() as tape:
            tape.watch(given)
            made = layer(given, training=True)
            loss = tf.reduce_sum(tf.sin(made) * weight)
        return made, tape.gradient(loss, given)

    expected, expected_gradient = gradient_of(plain, tf.constant(whole))
    made, gradient = tf.function(lambda given: gradient_of(together, given))(mine)
    part = slice(ends[hvd.rank()], ends[hvd.rank() + 1])
    np.testing.assert_allclose(made, expected[part], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(gradient, expected_gradient[part], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(together.moving_mean, plain.moving_mean, rtol=1e-4)
    np.testing.assert_allclose(together.moving_variance, plain.moving_variance, rtol=1e-3)
    images = tf.random.normal((2, 3, 3, 4))
    assert hvd_tf.SyncBatchNormalization()(images, training=True).shape == (2, 3, 3, 4)
    with pytest.raises(ValueError, match="fused"):
        hvd_tf.SyncBatchNormalization(fused=True)


def test_values():
    size = hvd.size()
    assert float(hvd.allreduce(float(hvd.rank()), op=hvd.Sum)) == size * (size - 1) / 2
    assert hvd.allgather([hvd.rank()]).numpy().tolist() == list(range(size))
    assert int(hvd.broadcast(hvd.rank(), size - 1)) == size - 1
    assert hvd.reducescatter(tf.ones((size, 2)), op=hvd.Sum).numpy().tolist() == [[size, size]]
    assert muster.keras.DistributedOptimizer is hvd.DistributedOptimizer


def test_elastic():
    model = model_of(hvd.rank())
    x, y = data(ROWS)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01))
    fit(model, optimizer, x, y, callbacks=[hvd.callbacks.MetricAverageCallback()], epochs=1)
    state = hvd.elastic.KerasState(model, batch=0, epoch=0)

    @hvd.elastic.run
    def train(state):
        fit(model, optimizer, x, y, epochs=2,
            callbacks=[hvd.callbacks.MetricAverageCallback(), hvd.elastic.CommitStateCallback(state),
                       hvd.elastic.UpdateBatchStateCallback(state), hvd.elastic.UpdateEpochStateCallback(state)])

    train(state)
    assert (state.batch, state.epoch) == (0, 2)
    assert_same_on_all_ranks(model)
    kept = [weight.copy() for weight in model.get_weights()]
    model.set_weights([weight * 0 for weight in kept])
    state.restore()
    for mine, expected in zip(model.get_weights(), kept):
        np.testing.assert_array_equal(mine, expected)


def test_names_of_horovod():
    """What scripts import is this package."""
    import horovod.keras.callbacks
    import horovod.keras.elastic
    import horovod.tensorflow.compression
    import horovod.tensorflow.elastic
    import horovod.tensorflow.functions
    import horovod.tensorflow.keras.callbacks
    import horovod.tensorflow.mpi_ops
    assert horovod.keras.callbacks.MetricAverageCallback is hvd.callbacks.MetricAverageCallback
    assert horovod.tensorflow.keras.DistributedOptimizer is hvd.DistributedOptimizer
    assert horovod.tensorflow.DistributedGradientTape is hvd_tf.DistributedGradientTape
    assert horovod.tensorflow.rank() == hvd.rank()
