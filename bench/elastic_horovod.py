"""A rank of bench/elastic that uses Horovod's elastic API: the last rank of the first world is killed by itself after 10
steps. It prints "killed TIME", and the rank 0 that goes on prints "again TIME SIZE" after its first collective. TIME is
the machine's monotonic clock, which all test hosts share."""

import os
import signal
import time

import horovod.torch as hvd
import torch

hvd.init()
state = hvd.elastic.TorchState(step=0)
first_size = hvd.size()


@hvd.elastic.run
def train(state):
    while state.step < 30:
        if hvd.size() == first_size and state.step == 10 and hvd.rank() == first_size - 1:
            print("killed", time.monotonic(), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.allreduce(torch.ones(1), name="step")
        if hvd.size() < first_size and hvd.rank() == 0 and state.step == 10:
            print("again", time.monotonic(), hvd.size(), flush=True)
        state.step += 1
        state.commit()


train(state)
