"""A rank that trains with Horovod's API while it forks: DataLoader's workers, and children that end at once in one way
or another. Prints "children <their exit codes>" and "sum <of all ranks' images> <of ranks>"."""

import os
import sys

import horovod.torch as hvd
import torch
from torch.utils.data import DataLoader, TensorDataset

IMAGES, BATCH, CHILDREN = 64, 8, 15


def child_is_refused():
    """In a child: ranks can be asked for, operations cannot be done."""
    if hvd.size() < 1:
        return 5
    try:
        hvd.allreduce(torch.ones(1), name="of a child")
    except ValueError:
        return 0
    return 6


def fork(number):
    """Exit code of a child that ends as children of scripts do: at once, by the interpreter's own end, with its exit
    handlers, or once it was refused."""
    pid = os.fork()
    if pid == 0:
        if number % 3 == 0:
            os._exit(0)
        sys.exit(0 if number % 3 == 1 else child_is_refused())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main():
    torch.set_num_threads(1)
    hvd.init()
    dataset = TensorDataset(torch.arange(IMAGES, dtype=torch.float32).unsqueeze(1))
    model = torch.nn.Linear(1, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1e-6),
                                         named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)

    def backward(images):
        optimizer.zero_grad()
        model(images).sum().backward()

    total = 0.0
    for epoch in range(2):
        for images, in DataLoader(dataset, batch_size=BATCH, num_workers=2):
            backward(images)
            optimizer.step()
            total += images.sum().item()
    codes = []
    for number in range(CHILDREN):
        backward(torch.ones(BATCH, 1))  # what it submits is under way while the child is made
        codes.append(fork(number))
        optimizer.step()
    everything = hvd.allreduce(torch.tensor(total), op=hvd.Sum, name="total").item()
    print(f"children {sorted(set(codes))} of {len(codes)}", flush=True)
    print(f"sum {everything:.0f} of {hvd.size()}", flush=True)


main()
