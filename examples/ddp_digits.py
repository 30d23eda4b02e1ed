"""Trains a small network on scikit-learn's digits with PyTorch DistributedDataParallel, over gloo.

    hvdrun -np 4 /usr/bin/python3 examples/ddp_digits.py [--epochs N]

Every rank reads its shard of the training set. The ranks average their gradients at each step. Rank 0 prints the mean
training loss of each epoch, and at the end the accuracy on images that no rank has trained on. The result depends on
the number of ranks, not on their hosts.
"""
import argparse

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel

TEST_IMAGES = 360
BATCH = 128  # global, divided among the ranks


def digits():
    """Returns images as float32 (n, 64) in 0..1 and labels as int64 (n,): first for training, then for the test."""
    data = load_digits()
    order = torch.randperm(len(data.target), generator=torch.Generator().manual_seed(1))
    images = torch.tensor(data.data, dtype=torch.float32)[order] / 16
    labels = torch.tensor(data.target, dtype=torch.int64)[order]
    return images[TEST_IMAGES:], labels[TEST_IMAGES:], images[:TEST_IMAGES], labels[:TEST_IMAGES]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    epochs = parser.parse_args().epochs

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)
    train_images, train_labels, test_images, test_labels = digits()
    network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()

    for epoch in range(epochs):
        order = torch.randperm(len(train_labels), generator=torch.Generator().manual_seed(epoch))
        total = torch.zeros(2)
        for start in range(0, len(order) - BATCH + 1, BATCH):
            mine = order[start:start + BATCH][rank::size]
            optimizer.zero_grad()
            loss = loss_of(model(train_images[mine]), train_labels[mine])
            loss.backward()
            optimizer.step()
            total += torch.tensor([loss.item() * len(mine), len(mine)])
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch + 1}/{epochs}: loss {total[0] / total[1]:.4f}", flush=True)

    if rank == 0:
        with torch.no_grad():
            right = (network(test_images).argmax(1) == test_labels).float().mean().item()
        print(f"accuracy on {len(test_labels)} test images: {right:.4f} ({size} ranks)", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
