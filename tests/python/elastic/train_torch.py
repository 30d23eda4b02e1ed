"""An elastic training of scikit-learn's digits with PyTorch, for test_elastic.py. It is written for Horovod: apart from
the log and the fault, nothing in it is Muster's."""

import json
import os
import signal

import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
EPOCHS, BATCH = 8, 16
FAULTS = [fault.split() for fault in os.environ.get("FAULT", "").split(";") if fault]  # "h1 2 10": epoch 2, batch 10


def log(**event):
    """Appends an event to the process's log."""
    with open(os.environ["LOG"], "a", encoding="utf-8") as file:
        print(json.dumps({"pid": os.getpid(), **event}), file=file)


hvd.init()
torch.manual_seed(hvd.rank())  # the models differ until they are synchronized
data = load_digits()
order = torch.randperm(len(data.target), generator=torch.Generator().manual_seed(1))
images = torch.tensor(data.images, dtype=torch.float32)[order] / 16
labels = torch.tensor(data.target)[order]
training = torch.utils.data.TensorDataset(images[:1400].flatten(1), labels[:1400])

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.5)
sampler = hvd.elastic.ElasticSampler(training, seed=3)
loader = torch.utils.data.DataLoader(training, batch_size=BATCH, sampler=sampler)


@hvd.elastic.run
def train(state):
    log(event="world", size=hvd.size(), epoch=state.epoch, done=sampler.processed_num)
    while state.epoch < EPOCHS:
        for index, (x, y) in enumerate(loader):
            if [os.environ["HOROVOD_HOSTNAME"], str(state.epoch), str(index)] in FAULTS and state.batches > 0:
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            sampler.record_batch(index, BATCH)
            state.batches += 1
            if state.batches % 5 == 0:
                state.commit()
        log(event="epoch", epoch=state.epoch, seen=sampler.processed_num, lr=scheduler.get_last_lr()[0])
        scheduler.step()
        state.epoch += 1
        sampler.set_epoch(state.epoch)
        state.commit()


train(hvd.elastic.TorchState(model=model, optimizer=optimizer, scheduler=scheduler, sampler=sampler, epoch=0, batches=0))
right = (model(images[1400:].flatten(1)).argmax(1) == labels[1400:]).float().mean().item()
log(event="done", accuracy=right, weights=[p.double().sum().item() for p in model.parameters()], size=hvd.size())
