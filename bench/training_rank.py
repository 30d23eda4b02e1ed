"""One rank of bench/training; hvdrun starts it. Trains with one torch thread; rank 0 prints one JSON line.

    hvdrun -np 1 /usr/bin/python3 bench/training_rank.py --calibrate SECONDS
    hvdrun -np 2 /usr/bin/python3 bench/training_rank.py LIBRARY resnet50|vgg16|digits [--units N] [--steps N]

LIBRARY: none (no exchange), muster, gloo (DistributedDataParallel), gloo-views (the same with gradients that lie in its
buckets), horovod. resnet50 and vgg16 have these networks' parameters and `units` multiplications of matrices in their
backward pass, shared out to the layers as the real arithmetic is; digits is a small convolutional network."""

import argparse
import importlib
import json
import math
import time

import torch

import gradient_shapes
from gloo_ranks import GlooRanks

WARM_UP_STEPS = 3
SIDE = 64  # of the matrices of a unit: they lie in the cache of a core
CALIBRATION_SECONDS = 3.0


class Arithmetic:
    """Units of real work: products of two matrices."""

    def __init__(self):
        generator = torch.Generator().manual_seed(1)
        self._left, self._right = (torch.rand(SIDE, SIDE, generator=generator) for _ in range(2))
        self._out = torch.empty(SIDE, SIDE)

    def work(self, units):
        for _ in range(units):
            torch.mm(self._left, self._right, out=self._out)

    def units_in(self, seconds):
        """How many take so long; by the median of some looks."""
        self.work(500)
        looks, ends = [], time.perf_counter() + CALIBRATION_SECONDS
        while time.perf_counter() < ends:
            begin = time.perf_counter()
            self.work(200)
            looks.append((time.perf_counter() - begin) / 200)
        return round(seconds / sorted(looks)[len(looks) // 2])


class Backward(torch.autograd.Function):
    """A layer: nothing forward; backward its share of arithmetic, then new gradients of its parameters."""

    @staticmethod
    def forward(context, flow, layer, *parameters):
        context.layer = layer
        context.shapes = [parameter.shape for parameter in parameters]
        return flow.clone()

    @staticmethod
    def backward(context, flow):
        layer = context.layer
        layer.arithmetic.work(layer.units)
        return (flow, None, *(torch.full(shape, layer.gradient) for shape in context.shapes))


class Layer(torch.nn.Module):
    def __init__(self, shapes, arithmetic, units):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(shape)) for shape in shapes)
        self.arithmetic, self.units, self.gradient = arithmetic, units, 0.0

    def forward(self, flow):
        return Backward.apply(flow, self, *self.weights)


class Gradients:
    """A network's parameters, and a step that makes gradients of known values."""

    def __init__(self, network, units):
        described = gradient_shapes.layers_of(network)
        arithmetic, total, done, layers = Arithmetic(), sum(each.multiply_adds for each in described), 0, []
        for each in described:
            before, done = done, done + each.multiply_adds
            layers.append(Layer(each.shapes, arithmetic, units * done // total - units * before // total))
        self.model = torch.nn.Sequential(*layers)
        self.rate = 0.01

    def loss(self, model, rank, step):
        for layer in self.model:
            layer.gradient = float(rank + 1 + step % 4)
        return model(torch.zeros(1)).sum()

    def wrong(self, ranks, step):
        """Elements of the gradients of `step` that are not their average over `ranks`."""
        expected = (ranks + 1) / 2 + step % 4
        return sum(int((parameter.grad != expected).sum()) for parameter in self.model.parameters())


class Digits:
    """scikit-learn's digits, 32 images a rank and step."""

    BATCH = 32

    def __init__(self):
        from sklearn.datasets import load_digits
        from torch import nn
        torch.manual_seed(1)
        data = load_digits()
        self._images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
        self._labels = torch.tensor(data.target)
        self.model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                                   nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10))
        self.rate = 0.02

    def loss(self, model, rank, step):
        at = (2 * step + rank) * self.BATCH % (len(self._labels) - self.BATCH)
        mine = slice(at, at + self.BATCH)
        return torch.nn.functional.cross_entropy(model(self._images[mine]), self._labels[mine])

    def wrong(self, ranks, step):
        """Gradients that are no numbers."""
        return sum(int((~parameter.grad.isfinite()).sum()) for parameter in self.model.parameters())


class Horovod:
    """muster.torch or horovod.torch, around the optimizer."""

    exchanges = True

    def __init__(self, module):
        self._hvd = importlib.import_module(module)
        self._hvd.init()
        self.rank, self.size = self._hvd.rank(), self._hvd.size()

    def wrap(self, model, optimizer):
        self._hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        return model, self._hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    def barrier(self):
        self._hvd.allreduce(torch.zeros(1), name="barrier")

    def gather(self, numbers):
        return self._hvd.allgather_object(numbers)

    def end(self):
        self._hvd.shutdown()


class Gloo(GlooRanks):
    """torch.distributed, around the model."""

    exchanges = True

    def __init__(self, views=False):
        super().__init__()
        self._views = views

    def wrap(self, model, optimizer):
        return torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=self._views), optimizer


class Alone(Gloo):
    """Ranks that know nothing of each other while they train."""

    exchanges = False

    def wrap(self, model, optimizer):
        return model, optimizer


LIBRARIES = {"none": Alone, "muster": lambda: Horovod("muster.torch"), "horovod": lambda: Horovod("horovod.torch"),
             "gloo": Gloo, "gloo-views": lambda: Gloo(views=True)}


def train(library, task, steps):
    """Seconds of each step on this rank, processor seconds of all of them, elements that are wrong, and a fingerprint
    of the parameters."""
    optimizer = torch.optim.SGD(task.model.parameters(), lr=task.rate, momentum=0.9)
    model, optimizer = library.wrap(task.model, optimizer)
    times, cpu = [], 0.0
    for step in range(-WARM_UP_STEPS, steps):
        if step == 0:
            library.barrier()
            cpu = time.process_time()
        begin = time.perf_counter()
        optimizer.zero_grad()
        task.loss(model, library.rank, step + WARM_UP_STEPS).backward()
        optimizer.step()
        times.append(time.perf_counter() - begin)
    cpu = time.process_time() - cpu
    wrong = task.wrong(library.size, steps - 1 + WARM_UP_STEPS) if library.exchanges else 0
    print_of = math.fsum(float(parameter.detach().double().sum()) for parameter in task.model.parameters())
    return times[WARM_UP_STEPS:], cpu, wrong, print_of


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library", nargs="?", choices=LIBRARIES)
    parser.add_argument("network", nargs="?", choices=["digits", *gradient_shapes.NETWORKS])
    parser.add_argument("--units", type=int, default=0)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--calibrate", type=float)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.calibrate is not None:
        print(json.dumps({"units": Arithmetic().units_in(options.calibrate)}), flush=True)
        return
    if options.library is None or options.network is None:
        parser.error("a library and a network are needed")
    task = Digits() if options.network == "digits" else Gradients(options.network, options.units)
    library = LIBRARIES[options.library]()
    everybody = library.gather(train(library, task, options.steps))
    slowest = sorted(max(each) for each in zip(*(times for times, _, _, _ in everybody)))
    wrong = sum(each for _, _, each, _ in everybody)
    if library.exchanges and len({print_of for _, _, _, print_of in everybody}) != 1:
        wrong += 1
    if library.rank == 0:
        print(json.dumps({"ranks": library.size, "step_ms": slowest[len(slowest) // 2] * 1e3,
                          "steps_s": options.steps / max(sum(times) for times, _, _, _ in everybody),
                          "cpu_ms": sum(cpu for _, cpu, _, _ in everybody) / options.steps * 1e3, "wrong": wrong}),
              flush=True)
    library.end()


main()
