"""Trains a small convolutional network on scikit-learn's digits with TensorFlow 2 and Horovod's API.

    hvdrun -np 2 python3 examples/horovod_tensorflow2_digits.py [--steps N] [--checkpoint digits]

The program is written for Horovod: nothing in it is Muster's. Every rank reads its shard of the training set. The
gradients of DistributedGradientTape are averages over all ranks. Rank 0 prints the loss and writes the checkpoint.
"""
import argparse

import horovod.tensorflow as hvd
import tensorflow as tf
from sklearn.datasets import load_digits


def dataset(size, rank, batch_size):
    """Returns an endless data set of batches: this rank's images, float32 (n, 8, 8, 1) in 0..1, and their labels."""
    data = load_digits()
    images = (data.images[..., None] / 16).astype("float32")
    shards = tf.data.Dataset.from_tensor_slices((images, data.target.astype("int64"))).shard(size, rank)
    return shards.repeat().shuffle(512, seed=1).batch(batch_size)


def main():
    parser = argparse.ArgumentParser(description="TensorFlow 2 digits example")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=200, help="of all ranks together")
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--checkpoint", help="prefix of the files that rank 0 writes at the end")
    args = parser.parse_args()

    hvd.init()
    gpus = tf.config.experimental.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    if gpus:
        tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], "GPU")

    model = tf.keras.Sequential([
        tf.keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
        tf.keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(10),
    ])
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = tf.keras.optimizers.Adam(args.lr * hvd.size())
    model.build((None, 8, 8, 1))

    @tf.function
    def training_step(images, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    steps = args.steps // hvd.size()
    for step, (images, labels) in enumerate(dataset(hvd.size(), hvd.rank(), args.batch_size).take(steps)):
        loss = training_step(images, labels)
        if step == 0:
            # Broadcast after the first step, because that step makes the optimizer's variables.
            variables = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
            hvd.broadcast_variables(model.variables, root_rank=0)
            hvd.broadcast_variables(variables, root_rank=0)
        if step % 10 == 0:
            mean = hvd.allreduce(loss)
            if hvd.rank() == 0:
                print(f"step {step}: loss {float(mean):.6f} ({hvd.size()} ranks)", flush=True)

    if hvd.rank() == 0 and args.checkpoint:
        tf.train.Checkpoint(model=model, optimizer=optimizer).save(args.checkpoint)


if __name__ == "__main__":
    main()
