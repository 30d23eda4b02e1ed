"""Trains a small convolutional network on scikit-learn's digits with PyTorch and Horovod's API.

    hvdrun -np 4 /usr/bin/python3 examples/horovod_torch_digits.py [--epochs N] [--checkpoint digits.pt]

The program is written for Horovod: nothing in it is Muster's. Every rank reads its shard of the training set. The ranks
average their gradients at each step. Rank 0 prints the loss and the accuracy on test images of each epoch, averaged
over all ranks, and writes the checkpoint.
"""
import argparse

import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

TRAINING_IMAGES = 1408  # of 1797


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=3, padding=1)
        self.fc1 = nn.Linear(512, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def datasets():
    """Returns two sets of images as float32 (n, 1, 8, 8) in 0..1 with their labels: for training, for the test."""
    data = load_digits()
    order = torch.randperm(len(data.target), generator=torch.Generator().manual_seed(1))
    images = torch.tensor(data.images, dtype=torch.float32)[order].unsqueeze(1) / 16
    labels = torch.tensor(data.target)[order]
    return (TensorDataset(images[:TRAINING_IMAGES], labels[:TRAINING_IMAGES]),
            TensorDataset(images[TRAINING_IMAGES:], labels[TRAINING_IMAGES:]))


def metric_average(value, name):
    return hvd.allreduce(torch.tensor(value), name=name).item()


def train(model, optimizer, sampler, loader, device, epoch):
    """Trains for one epoch. Returns the mean loss of this rank's images."""
    model.train()
    sampler.set_epoch(epoch)  # another order in each epoch
    total = 0.0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
    return total / len(sampler)


def test(model, sampler, loader, device):
    """Returns the share of this rank's test images that the model labels correctly."""
    model.eval()
    right = 0.0
    with torch.no_grad():
        for images, labels in loader:
            right += (model(images.to(device)).argmax(1) == labels.to(device)).sum().item()
    return right / len(sampler)


def main():
    parser = argparse.ArgumentParser(description="PyTorch digits example")
    parser.add_argument("--batch-size", type=int, default=16, help="images of a rank in a step")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--lr", type=float, default=0.02, help="learning rate of one rank; multiplied by their number")
    parser.add_argument("--momentum", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--checkpoint", help="file that rank 0 writes after each epoch")
    args = parser.parse_args()

    hvd.init()
    torch.manual_seed(args.seed)
    device = torch.device("cpu")
    if torch.cuda.is_available():
        torch.cuda.set_device(hvd.local_rank())  # one GPU a rank
        device = torch.device("cuda", hvd.local_rank())
    torch.set_num_threads(1)

    training_set, test_set = datasets()
    train_sampler = DistributedSampler(training_set, num_replicas=hvd.size(), rank=hvd.rank())
    train_loader = DataLoader(training_set, batch_size=args.batch_size, sampler=train_sampler)
    test_sampler = DistributedSampler(test_set, num_replicas=hvd.size(), rank=hvd.rank())
    test_loader = DataLoader(test_set, batch_size=100, sampler=test_sampler)

    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=args.momentum)

    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    for epoch in range(1, args.epochs + 1):
        loss = metric_average(train(model, optimizer, train_sampler, train_loader, device, epoch), "avg_loss")
        accuracy = metric_average(test(model, test_sampler, test_loader, device), "avg_accuracy")
        if hvd.rank() == 0:
            print(f"epoch {epoch}: loss {loss:.6f}, accuracy {accuracy:.4f} ({hvd.size()} ranks)", flush=True)
            if args.checkpoint:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch},
                           args.checkpoint)


if __name__ == "__main__":
    main()
