"""An elastic training of scikit-learn's digits whose course does not depend on the number of ranks: each step is one batch
of the whole job, and each rank takes its share of it.

    elastic_digits.py STEPS [SECONDS]     until STEPS, or until "stop" is in the home of a rank's host; SECONDS between steps

Rank 0 prints "world of SIZE from STEP on HOSTS", every 10 steps "step STEP", and at the end "trained STEP steps, counted
COUNT: accuracy SHARE, weights SUM". COUNT is kept in the model, so a step that counts twice shows."""

import os
import pathlib
import sys
import time

import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

STEPS, PAUSE, BATCH, TRAINING = int(sys.argv[1]), float((sys.argv + ["0"])[2]), 96, 1400
STOP, HOST = pathlib.Path.home() / "stop", os.environ["HOROVOD_HOSTNAME"]

torch.set_num_threads(1)
hvd.init()
torch.manual_seed(1)
data = load_digits()
order = torch.randperm(len(data.target))
images, labels = torch.tensor(data.images, dtype=torch.float32)[order].flatten(1) / 16, torch.tensor(data.target)[order]
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
model.register_buffer("count", torch.zeros(1, dtype=torch.int64))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5),
                                     named_parameters=model.named_parameters(), op=hvd.Sum)


def say(*words):
    if hvd.rank() == 0:
        print(*words, flush=True)


def step(number):
    """True if some rank was asked to stop."""
    batch = torch.randint(TRAINING, (BATCH,), generator=torch.Generator().manual_seed(number))[hvd.rank()::hvd.size()]
    optimizer.zero_grad()
    (F.cross_entropy(model(images[batch]), labels[batch], reduction="sum") / BATCH).backward()
    optimizer.step()
    model.count += 1
    return bool(hvd.allreduce(torch.tensor([float(STOP.exists())]), op=hvd.Sum, name="stop"))


@hvd.elastic.run
def train(state):
    hosts = sorted(set(hvd.allgather_object(HOST)))
    say("world of", hvd.size(), "from", state.step, "on", *hosts)
    while state.step < STEPS and not state.is_stopped:
        state.is_stopped = step(state.step)
        state.step += 1
        if state.step % 10 == 0:
            say("step", state.step)
        time.sleep(PAUSE)
        state.commit()


state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0, is_stopped=False)
train(state)
accuracy = (model(images[TRAINING:]).argmax(1) == labels[TRAINING:]).double().mean().item()
weights = sum(parameter.double().abs().sum().item() for parameter in model.parameters())
say(f"trained {state.step} steps, counted {model.count.item()}: accuracy {accuracy:.4f}, weights {weights:.3f}")
