"""Many short worlds in one process, for test_elastic.py. Every rank leaves a world after some steps. In every tenth world
the process of host h2 kills itself instead, and the launcher replaces it. The log has this process's threads, open
descriptors and memory in each world."""

import json
import os
import signal

import numpy as np

import muster.elastic
import muster.numpy as hvd

WORLDS = int(os.environ["WORLDS"])
state = muster.elastic.ObjectState(world=0, weights=np.zeros(1000))


def resident_bytes():
    """Returns the memory of this process that is resident."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def log(**event):
    """Appends an event to the process's log."""
    with open(os.environ["LOG"], "a", encoding="utf-8") as file:
        print(json.dumps({"pid": os.getpid(), **event}), file=file)


@muster.elastic.run
def train(state):
    is_new = os.environ["MUSTER_GENERATION"] == os.environ.get("FIRST_GENERATION")
    log(event="world", world=state.world, size=hvd.size(), threads=len(os.listdir("/proc/self/task")),
        descriptors=len(os.listdir("/proc/self/fd")), resident=resident_bytes())
    for _ in range(3):
        state.weights = state.weights + hvd.allreduce(np.ones(1000), op=hvd.Sum)
    if state.world == WORLDS:
        return
    if state.world % 10 == 9 and os.environ["HOROVOD_HOSTNAME"] == "h2" and not is_new:
        os.kill(os.getpid(), signal.SIGKILL)
    state.world += 1
    state.save()
    hvd.allreduce(np.ones(100_000))
    raise hvd.HostsUpdatedInterrupt()


hvd.init()
os.environ["FIRST_GENERATION"] = os.environ["MUSTER_GENERATION"]
train(state)
assert (state.weights % 3 == 0).all()
log(event="done", world=state.world)
