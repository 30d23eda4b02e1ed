"""A rank that trains with Horovod's API until something happens to one of the ranks.

    faulty_training.py MODE [VICTIM]

killed: at step 5, in the middle of backward, VICTIM is killed by SIGKILL; it prints "killing <ms since 1970>" before,
    the others "failed <ms> <rank> <host>: <message>" when they are told.
ends, raises, exits, _exits: VICTIM leaves after step 5: at its end, by an exception, sys.exit(3), os._exit(4).
loops: trains for ever. All print "training" once the first step is done, and "left" when the interpreter ends."""

import atexit
import os
import signal
import sys
import time

import horovod.torch as hvd
import torch
from horovod.common.exceptions import HorovodInternalError

FAULT_STEP, LAST_STEP = 5, 10
MODE, VICTIM = sys.argv[1], int((sys.argv + ["-1"])[2])


def milliseconds():
    return time.time() * 1000


class Fault(torch.autograd.Function):
    """In the middle of backward: what comes later in the network has its gradients, what comes earlier has none."""

    armed = False

    @staticmethod
    def forward(context, tensor):
        return tensor.clone()

    @staticmethod
    def backward(context, gradient):
        if Fault.armed:
            print(f"killing {milliseconds():.0f}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        return gradient


class Middle(torch.nn.Module):
    def forward(self, tensor):
        return Fault.apply(tensor)


def leave():
    """As MODE says."""
    if MODE == "raises":
        raise RuntimeError("this rank has had enough")
    if MODE == "exits":
        sys.exit(3)
    if MODE == "_exits":
        os._exit(4)


def train():
    layers = [torch.nn.Linear(256, 256) for _ in range(8)]
    model = torch.nn.Sequential(*layers[:4], Middle(), *layers[4:])
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01),
                                         named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    step = 0
    while MODE == "loops" or step < LAST_STEP:
        Fault.armed = MODE == "killed" and step == FAULT_STEP and hvd.rank() == VICTIM
        optimizer.zero_grad()
        model(torch.ones(16, 256)).square().sum().backward()
        optimizer.step()
        if step == 0:
            print("training", flush=True)
        if step == FAULT_STEP and hvd.rank() == VICTIM:
            leave()
        step += 1


def main():
    atexit.register(lambda: print("left", flush=True))
    torch.set_num_threads(1)
    hvd.init()
    try:
        train()
    except HorovodInternalError as error:
        print(f"failed {milliseconds():.0f} {error.rank} {error.host}: {error}", flush=True)
        if MODE != "killed":
            raise


main()
