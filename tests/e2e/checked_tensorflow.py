"""Runs a TensorFlow 2 script that trains by Keras' Adam as it is, and looks at the weights after every step: every rank has
the same bits. What a step has made is looked at when the next one applies its gradients (what the script does in between,
as giving all ranks the weights of one after the first step, belongs to it), and at the end.

    checked_tensorflow.py SCRIPT ARGUMENTS…

Each rank prints "checked <steps> steps of <ranks> ranks" at the end; a step after which ranks differ ends it with an
AssertionError."""

import hashlib
import runpy
import sys

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

steps = 0
weights = []


def compare(arrays):
    """AssertionError: ranks differ."""
    digest = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
    digests = hvd.allgather_object(digest)
    assert len(set(digests)) == 1, f"after step {steps} ranks differ: {digests}"


def count_step(*arrays):
    """Called by each step with the weights that it finds."""
    global steps
    if steps > 0:
        compare(arrays)
    steps += 1
    return np.int64(steps)


class CheckedAdam(tf.keras.optimizers.Adam):
    def apply_gradients(self, grads_and_vars, *args, **options):
        pairs = list(grads_and_vars)
        weights[:] = [variable for _, variable in pairs]
        tf.numpy_function(count_step, [tf.convert_to_tensor(variable) for variable in weights], tf.int64)
        return super().apply_gradients(pairs, *args, **options)


tf.keras.optimizers.Adam = CheckedAdam
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
compare([tf.convert_to_tensor(variable).numpy() for variable in weights])
print(f"checked {steps} steps of {hvd.size()} ranks", flush=True)
