"""Trains on scikit-learn's digits with PyTorch and Horovod's API; gradients travel as 16-bit floats.

    hvdrun -np 4 /usr/bin/python3 examples/horovod_fp16_digits.py [--no-fp16-allreduce] [--epochs N]

The program is written for Horovod: nothing in it is Muster's. Compression.fp16 halves the bytes that ranks send. Ranks
add up the gradients of two small batches before they reduce them, which halves the bytes again. Rank 0 prints loss and
images a second of each epoch.
"""
import argparse
import time

import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits
from torch import nn

BATCHES_PER_ALLREDUCE = 2


def shard(size, rank):
    """Returns this rank's images as float32 (n, 64) in 0..1 with their labels. All ranks get equally many."""
    data = load_digits()
    count = len(data.target) // size * size
    images = torch.tensor(data.data[:count], dtype=torch.float32) / 16
    return images[rank::size], torch.tensor(data.target[:count])[rank::size]


def main():
    parser = argparse.ArgumentParser(description="fp16 compression example")
    parser.add_argument("--no-fp16-allreduce", dest="fp16_allreduce", action="store_false")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--base-lr", type=float, default=0.05)
    args = parser.parse_args()

    hvd.init()
    torch.manual_seed(42)
    torch.set_num_threads(1)
    images, labels = shard(hvd.size(), hvd.rank())
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.base_lr * BATCHES_PER_ALLREDUCE * hvd.size(), momentum=0.5)
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), compression=compression,
                                         backward_passes_per_step=BATCHES_PER_ALLREDUCE, op=hvd.Average)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    step_size = args.batch_size * BATCHES_PER_ALLREDUCE
    for epoch in range(1, args.epochs + 1):
        begin, total = time.perf_counter(), 0.0
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
        steps = order.split(step_size)[:len(order) // step_size]
        for chosen in steps:
            optimizer.zero_grad()
            for some in chosen.split(args.batch_size):
                loss = nn.functional.cross_entropy(model(images[some]), labels[some]) / BATCHES_PER_ALLREDUCE
                loss.backward()
                total += loss.item()
            optimizer.step()
        mean = hvd.allreduce(torch.tensor(total / len(steps)), name="loss").item()
        if hvd.rank() == 0:
            rate = len(steps) * step_size * hvd.size() / (time.perf_counter() - begin)
            sent = "fp16" if args.fp16_allreduce else "fp32"
            print(f"epoch {epoch}: loss {mean:.6f}, {rate:.0f} images/s ({sent}, {hvd.size()} ranks)", flush=True)


if __name__ == "__main__":
    main()
