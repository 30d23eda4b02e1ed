"""A graph of TensorFlow that is made in a world of one rank and also runs in a world of two, for test_elastic_tensorflow.py.
Each rank's gradient is its rank + 1."""

import json
import os
import time

import horovod.tensorflow as hvd
import tensorflow as tf


def log(**event):
    """Appends an event to the process's log."""
    with open(os.environ["LOG"], "a", encoding="utf-8") as file:
        print(json.dumps({"pid": os.getpid(), **event}), file=file)


hvd.init()
weight, share = tf.Variable(1.0), tf.Variable(0.0)


@tf.function
def gradient():
    """The average over all ranks."""
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = weight * share
    return tape.gradient(loss, [weight])[0]


@hvd.elastic.run
def train(state):
    """Until three steps were made in a world of two."""
    share.assign(hvd.rank() + 1)
    log(event="world", size=hvd.size())
    while state.joint < 3:
        average = float(gradient())
        log(event="step", size=hvd.size(), average=average)
        state.joint += hvd.size() == 2
        time.sleep(0.05)
        state.commit()


train(hvd.elastic.TensorFlowState(variables=[weight], joint=0))
