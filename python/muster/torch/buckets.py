"""Gradients in memory that the ranks of a host share, in buckets: a reduction there copies nothing."""

import os
import sys

import torch

from muster import registered, world
from muster.torch import tensors as memory
from muster.torch.repeated import Repeated

# A bucket is submitted when the gradients of all its parameters are there. Each submission wakes a thread of libmuster.
_BUCKET_BYTES = 4 << 20
_ALIGNMENT = 64


def are_wanted():
    """Returns False if the user has turned buckets off for programs that cannot be changed."""
    return os.environ.get("MUSTER_GRADIENT_VIEWS", "1") != "0"


def can_hold(parameter):
    """Returns True if the gradient of this parameter can lie in a bucket."""
    return (memory.is_in_place(parameter) and not memory.is_on_gpu(parameter) and parameter.dtype in memory.TYPES and
            parameter.numel() > 0)


def _padded(parameter):
    size = parameter.numel() * parameter.element_size()
    return (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


def _plan(parameters):
    """Returns lists of parameters, each for one bucket. The last parameters come first, as in a backward pass."""
    plans, sizes, last = [], [], {}
    for parameter in reversed(parameters):
        kind, size = parameter.dtype, _padded(parameter)
        at = last.get(kind)
        if at is None or sizes[at] + size > _BUCKET_BYTES:
            at = last[kind] = len(plans)
            plans.append([])
            sizes.append(0)
        plans[at].append(parameter)
        sizes[at] += size
    return plans


def _references_to(gradient):
    return sys.getrefcount(gradient)


def _fewest_references():
    """Returns what _references_to() says of a gradient that only its parameter has."""
    parameter = torch.zeros(1, requires_grad=True)
    parameter.grad = torch.zeros(1)
    gradient = parameter.grad
    return _references_to(gradient)


_FEWEST_REFERENCES = _fewest_references()


def _is_held(references):
    """Returns True if something else than the parameter and one variable refers to a gradient."""
    return references > _FEWEST_REFERENCES


class Bucket:
    """The gradients of some parameters, one behind the other in `flat`. `views` are their places. Not thread-safe."""

    def __init__(self, name, flat, parameters, process_set, scales):
        self._flat = flat
        self._reduction = Repeated(name, process_set, alone=True, **scales)
        self.views = {}  # parameter -> where its gradient lies
        begin = 0
        for parameter in parameters:
            self.views[parameter] = flat[begin:begin + parameter.numel()].view(parameter.shape)
            begin += _padded(parameter) // parameter.element_size()
        self._waiting = set(parameters)  # those whose gradients are not complete in this step
        self._held = []  # parameters whose gradients somebody refers to, and which stay where they are

    def add(self, parameter):
        """Takes the parameter's gradient, which is complete. Returns True if all are."""
        if parameter.grad is not self.views[parameter]:
            self.move(parameter)
        self._waiting.discard(parameter)
        return not self._waiting

    def move(self, parameter):
        """Copies the gradient to its place, and makes the place the parameter's gradient. Without a gradient it is
        zero. A gradient that the program refers to stays what it is, and gets the result in finish()."""
        view = self.views[parameter]
        gradient = parameter.grad
        with torch.no_grad():
            if gradient is None:
                view.zero_()
            else:
                view.copy_(gradient)
                if _is_held(_references_to(gradient)):
                    self._held.append(parameter)
                    return
        parameter.grad = view

    def begin(self):
        """Submits the bucket. Gradients that are missing are taken as they are. Returns a function that waits."""
        for parameter in self._waiting:
            if parameter.grad is not self.views[parameter]:
                self.move(parameter)
        return self._reduction.begin(self._flat)

    def restart(self):
        """Forgets what this step has added."""
        self._waiting.update(self.views)
        self._held.clear()

    def finish(self):
        """Gives the results to gradients outside the bucket."""
        with torch.no_grad():
            for parameter in self._held:
                parameter.grad.copy_(self.views[parameter])


class Buckets:
    """The buckets of an optimizer. The memory is free when no gradient lies in it, also after shutdown()."""

    def __init__(self, names, parameters, process_set, scales):
        """Collective over `process_set`, with the same parameters on all ranks. HorovodInternalError: it failed.
        RanksDifferError: a rank has joined, or has other parameters."""
        self.world = world.current()
        self.of = {}  # parameter -> its Bucket
        self.all = []
        plans = _plan(parameters)
        size = sum(_padded(parameter) for plan in plans for parameter in plan)
        whole = memory.made(registered.new(size, f"gradients.{names[plans[0][0]]}", process_set))
        begin = 0
        for plan in plans:
            end = begin + sum(map(_padded, plan))
            bucket = Bucket(names[plan[0]], whole[begin:end].view(plan[0].dtype), plan, process_set, scales)
            self.all.append(bucket)
            self.of.update((parameter, bucket) for parameter in plan)
            begin = end
        for parameter, bucket in self.of.items():
            bucket.move(parameter)
            bucket.restart()

    def are_current(self):
        """Returns False after shutdown(), when the memory is this process's own."""
        return world.is_current(self.world)
