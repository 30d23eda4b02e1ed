"""An elastic training with NumPy, for test_elastic.py: logistic regression on numbers of which the seed is fixed.

It writes a line of JSON to the file $LOG for everything that a test asks about. $FAULT says what goes wrong, and on which
host: words as "kill h2 7" (SIGKILL in step 7).
"""

import json
import os
import signal
import time

import numpy as np

import muster.elastic
import muster.numpy as hvd
from muster import next_world, world

STEPS = int(os.environ.get("STEPS", "40"))
SAMPLES, FEATURES = 1200, 20
HOST = os.environ["HOROVOD_HOSTNAME"]
FAULTS = [fault.split() for fault in os.environ.get("FAULT", "").split(";") if fault]


def log(**event):
    """Appends an event to the process's log."""
    with open(os.environ["LOG"], "a", encoding="utf-8") as file:
        print(json.dumps({"pid": os.getpid(), "time": time.time(), **event}), file=file)


def fail(step, worlds):
    """Does what $FAULT wants in this step. Faults belong to the first world that this process was in."""
    for kind, host, at in FAULTS:
        if host != HOST or int(at) != step or worlds != 1:
            continue
        log(event=kind, step=step)
        if kind == "orphan" and os.fork() == 0:
            time.sleep(8)  # as a worker of a DataLoader, which keeps the descriptors of its parent for a while
            os._exit(0)
        if kind in ("kill", "orphan"):
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "raise":
            raise RuntimeError("the script of this rank has an error")


def die_at(kind, function):
    """Returns `function`, but with a SIGKILL before it if $FAULT has this kind and host, in that generation."""
    def call(*arguments):
        for named, host, generation in FAULTS:
            if (named, host, generation) == (kind, HOST, os.environ.get("MUSTER_GENERATION")):
                log(event=kind)
                os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments)

    return call


for name in ("arrived", "publish", "find", "formed"):
    setattr(next_world.HorovodSource, name, die_at(name, getattr(next_world.HorovodSource, name)))
world.shutdown = die_at("shutdown", world.shutdown)


def data():
    """Returns the samples and their classes, the same on all ranks."""
    random = np.random.default_rng(7)
    samples = random.normal(size=(SAMPLES, FEATURES))
    return samples, (samples @ random.normal(size=FEATURES) > 0).astype(float)


def accuracy(weights, samples, classes):
    """Returns the share of the samples that the weights classify correctly."""
    return float(np.mean((samples @ weights > 0) == classes))


samples, classes = data()
memory = {"worlds": 0, "process": os.urandom(8).hex()}  # only in memory; never saved
state = muster.elastic.ObjectState(weights=np.zeros(FEATURES), step=0, sizes=[])
state.register_reset_callbacks([lambda: log(event="reset", rank=hvd.rank(), size=hvd.size())])


def train_step():
    """Takes a step on this rank's share of the samples."""
    mine = slice(hvd.rank(), None, hvd.size())
    probabilities = 1 / (1 + np.exp(-samples[mine] @ state.weights))
    gradient = samples[mine].T @ (probabilities - classes[mine])
    state.weights = state.weights - 2.0 / SAMPLES * hvd.allreduce(gradient, op=hvd.Sum, name="gradient")


@muster.elastic.run
def train(state):
    memory["worlds"] += 1
    log(event="world", rank=hvd.rank(), size=hvd.size(), step=state.step, **memory)
    is_first = True
    while state.step < STEPS:
        fail(state.step, memory["worlds"])
        train_step()
        if is_first:
            log(event="collective", size=hvd.size(), step=state.step)
            is_first = False
        state.step += 1
        state.sizes = [*state.sizes, hvd.size()]
        time.sleep(float(os.environ.get("PAUSE", "0")))
        state.commit()


hvd.init()
train(state)
log(event="done", step=state.step, sizes=state.sizes, accuracy=accuracy(state.weights, samples, classes),
    weights=state.weights.tolist(), **memory)
