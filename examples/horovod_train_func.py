"""A larger program that passes its model to a `train_func(model)`, which trains it with Horovod's API. Tools for
compression, such as Neural Compressor, ask their users for such a function.

    hvdrun -np 2 /usr/bin/python3 examples/horovod_train_func.py

The program is written for Horovod: nothing in it is Muster's. It uses the rank only to choose which rank prints. It
trains a network on scikit-learn's digits, sets the smallest weights of each layer to zero, and trains the others again.
"""
import copy

import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits
from torch import nn

SPARSITY = 0.7
TRAINING_IMAGES = 1408  # of 1797
BATCH, EPOCHS, RATE = 16, 4, 0.03  # of one rank


def digits():
    """Returns images as float32 (n, 64) in 0..1, and their labels, in a fixed order."""
    data = load_digits()
    order = torch.randperm(len(data.target), generator=torch.Generator().manual_seed(1))
    return torch.tensor(data.data, dtype=torch.float32)[order] / 16, torch.tensor(data.target)[order]


def train_func(model):
    """Trains `model` on all ranks, in place, and returns it. Weights that are zero at the start stay zero."""
    hvd.init()  # does nothing when it was called before
    images, labels = digits()
    images, labels = images[:TRAINING_IMAGES], labels[:TRAINING_IMAGES]
    kept = {name: parameter.detach() != 0 for name, parameter in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE * hvd.size(), momentum=0.5)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    model.train()
    for epoch in range(EPOCHS):
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
        for batch in order.split(BATCH * hvd.size()):
            mine = batch[hvd.rank()::hvd.size()]
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[mine]), labels[mine]).backward()
            optimizer.step()
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    parameter.mul_(kept[name])
    return model


def eval_func(model):
    """Returns the share of the test images that the model labels correctly."""
    images, labels = digits()
    with torch.no_grad():
        return (model(images[TRAINING_IMAGES:]).argmax(1) == labels[TRAINING_IMAGES:]).float().mean().item()


def prune(model):
    """Returns a copy of the model, with its smallest weights set to zero."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        for layer in model:
            if isinstance(layer, nn.Linear):
                threshold = layer.weight.abs().flatten().kthvalue(int(SPARSITY * layer.weight.numel())).values
                layer.weight[layer.weight.abs() <= threshold] = 0
    return model


def main():
    torch.manual_seed(42)
    torch.set_num_threads(1)
    dense = train_func(nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10)))
    pruned = prune(dense)
    before = eval_func(pruned)
    tuned = train_func(pruned)
    zeros = sum(int((parameter == 0).sum()) for parameter in tuned.parameters())
    parameters = sum(parameter.numel() for parameter in tuned.parameters())
    if hvd.rank() == 0:
        print(f"accuracy {eval_func(dense):.4f}; {zeros / parameters:.0%} of the weights pruned: {before:.4f}, "
              f"trained again: {eval_func(tuned):.4f} ({hvd.size()} ranks)", flush=True)


if __name__ == "__main__":
    main()
