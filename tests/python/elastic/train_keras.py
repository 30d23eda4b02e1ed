"""An elastic training with TensorFlow, for test_elastic.py. Apart from the log and the fault, nothing in it is Muster's.

$LOOP: "fit" trains as Horovod's example for Keras does: callbacks, and a step of fit() after each change of the ranks, in
which new ranks take part before they synchronize. "function" trains in a tf.function of its own."""

import json
import os
import signal

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf

EPOCHS, STEPS, BATCH = 4, 12, 32
FAULTS = [fault.split() for fault in os.environ.get("FAULT", "").split(";") if fault]  # "h1 2 3": epoch 2, batch 3
IS_NEW = os.environ["MUSTER_GENERATION"] != "0"


def log(**event):
    """Appends an event to the process's log."""
    with open(os.environ["LOG"], "a", encoding="utf-8") as file:
        print(json.dumps({"pid": os.getpid(), **event}), file=file)


def fail(epoch, batch):
    """Kills this process if $FAULT says so, unless it replaces one."""
    if not IS_NEW and [os.environ["HOROVOD_HOSTNAME"], str(epoch), str(batch)] in FAULTS:
        os.kill(os.getpid(), signal.SIGKILL)


hvd.init()
random = np.random.default_rng(11)
centers = random.normal(size=(4, 8)).astype("float32")
classes = random.integers(0, 4, 2000)
samples = (centers[classes] + 0.3 * random.normal(size=(2000, 8))).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((samples, classes)).repeat().shuffle(500).batch(BATCH)

tf.keras.utils.set_random_seed(hvd.rank())
model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(4)])
model.build((None, 8))
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class Faults(tf.keras.callbacks.Callback):
    """Kills this process in the middle of an epoch."""

    def on_train_batch_begin(self, batch, logs=None):
        """Kills this process if $FAULT says so."""
        fail(state.epoch, batch)


def fit_loop():
    """Trains by fit()."""
    global state
    model.compile(loss=loss, optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.01)))
    model.fit(dataset, steps_per_epoch=1, epochs=1, verbose=0)  # the optimizer gets its variables
    state = hvd.elastic.KerasState(model, batch=0, epoch=0)

    def on_reset():
        log(event="reset", size=hvd.size())
        state.model.fit(dataset, steps_per_epoch=1, epochs=1, verbose=0)

    state.register_reset_callbacks([on_reset])
    callbacks = [hvd.elastic.UpdateEpochStateCallback(state), hvd.elastic.UpdateBatchStateCallback(state),
                 hvd.elastic.CommitStateCallback(state), Faults()]

    @hvd.elastic.run
    def train(state):
        log(event="world", size=hvd.size(), epoch=state.epoch)
        state.model.fit(dataset, steps_per_epoch=STEPS, epochs=EPOCHS - state.epoch, callbacks=callbacks, verbose=0)

    train(state)


def function_loop():
    """Trains by a tf.function."""
    global state
    import horovod.tensorflow

    optimizer = tf.keras.optimizers.SGD(0.05)

    @tf.function
    def step(x, y, reduces=True):
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True))
        if reduces:
            tape = horovod.tensorflow.DistributedGradientTape(tape)
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    batches = iter(dataset)
    step(*next(batches), reduces=False)
    state = horovod.tensorflow.elastic.TensorFlowKerasState(model, optimizer, batch=0, epoch=0)

    @horovod.tensorflow.elastic.run
    def train(state):
        log(event="world", size=hvd.size(), epoch=state.epoch)
        while state.epoch < EPOCHS:
            while state.batch < STEPS:
                fail(state.epoch, state.batch)
                step(*next(batches))
                state.batch += 1
                state.commit()
            state.epoch += 1
            state.batch = 0
            state.commit()

    train(state)


{"fit": fit_loop, "function": function_loop}[os.environ["LOOP"]]()
right = float(np.mean(np.argmax(model(samples).numpy(), 1) == classes))
log(event="done", epoch=state.epoch, batch=state.batch, accuracy=right,
    weights=[float(np.sum(weight)) for weight in model.get_weights()])
