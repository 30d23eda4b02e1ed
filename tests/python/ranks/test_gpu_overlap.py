"""That gradients are reduced while the backward pass goes on, by the order of the calls: torch's autograd and muster.torch's
optimizer are real, the driver is none (emulated_gpu.py), and gradients are written by copies in a stream that has them later
than the host has gone on, as kernels would. How much time that saves on a GPU is for tests/gpu/train.py."""

import os
import threading
import time

import pytest
import torch
from emulated_gpu import gpu  # noqa: F401

import muster.torch as hvd
from muster import engine
from muster.torch import tensors as memory
from muster.torch.gradients import Gradients

LAYERS = 6
WIDTH = 512  # a MiB of each gradient, which is submitted at once
PATIENCE_SECONDS = 60


class Layer(torch.autograd.Function):
    """x @ weight, which says when it goes backward."""

    @staticmethod
    def forward(ctx, x, weight, number, backward):
        ctx.save_for_backward(x, weight)
        ctx.call = number, backward
        return x @ weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        number, backward = ctx.call
        backward(number)
        return grad @ weight.t(), x.t() @ grad, None, None


class Recording:
    """A step of a training on the emulated GPU."""

    def __init__(self, gpu, patch):
        self.gpu = gpu
        self.submitted = []  # tickets of gradients, the last layer's first
        self.weights = [torch.nn.Parameter(torch.full((WIDTH, WIDTH), 0.01)) for _ in range(LAYERS)]
        names = [(f"weight.{i}", weight) for i, weight in enumerate(self.weights)]
        # torch knows these weights as tensors of the CPU, whose gradients could lie in shared memory.
        self.optimizer = hvd.DistributedOptimizer(torch.optim.SGD(self.weights, lr=0.0), named_parameters=names,
                                                  gradient_as_bucket_view=False)
        self._follow(patch)

    def _follow(self, patch):
        submit, wait = engine.Ticket.submit, engine.Ticket.wait

        def submitted(ticket, *arguments):
            self.submitted.append(submit(ticket, *arguments))
            return ticket

        def waited(ticket):
            self.gpu.note("host waits")
            return wait(ticket)

        def on_gpu(gradients, parameter):
            parameter.grad = self.gpu.copy_of(parameter.grad)
            return parameter.grad

        patch.setattr(engine.Ticket, "submit", submitted)
        patch.setattr(engine.Ticket, "wait", waited)
        patch.setattr(Gradients, "_gradient", on_gpu)
        patch.setattr(memory, "stream_of", self.gpu.stream_of)

    def _backward(self, number):
        self.gpu.note(f"layer {number} goes backward")
        if number == 0:
            self._meet_the_first_result()

    def _meet_the_first_result(self):
        # The first layer's backward pass takes as long as the last layer's gradient is on its way: no rank has to wait
        # for more of this one than it has submitted.
        end = time.monotonic() + PATIENCE_SECONDS
        while not self.submitted[0].done() and time.monotonic() < end:
            os.sched_yield()
        self.gpu.note(f"first gradient is done: {self.submitted[0].done()}")

    def run(self):
        x = torch.full((4, WIDTH), 0.01 * (hvd.rank() + 1))
        for i, weight in enumerate(self.weights):
            x = Layer.apply(x, weight, i, self._backward)
        self.gpu.begin_trace()
        self.gpu.note("backward begins")
        x.sum().backward()
        self.gpu.note("backward ends")
        own = [weight.grad.memory.source.clone() for weight in self.weights]
        self.optimizer.step()
        self.gpu.note("step ends")
        return own, self.gpu.trace()


@pytest.fixture(scope="module")
def step(gpu):  # noqa: F811
    patch = pytest.MonkeyPatch()
    recording = Recording(gpu, patch)
    own, calls = recording.run()
    patch.undo()
    return recording, own, calls


def between(calls, first, last):
    """Calls between two notes."""
    notes = [(call[2] if call[1] == "note" else None) for call in calls]
    return calls[notes.index(first) + 1:notes.index(last)]


def by_host(calls):
    return [call for call in calls if call[0] == threading.get_native_id()]


def test_gradients_are_those_of_all_ranks(step):
    recording, own, _ = step
    for weight, mine in zip(recording.weights, own):
        expected = hvd.allreduce(mine, op=hvd.Average)
        assert torch.allclose(weight.grad, expected, rtol=1e-6)


def test_each_is_submitted_as_soon_as_it_is_there(step):
    """Behind what computes it, before the layer below goes backward."""
    recording, _, calls = step
    assert len(recording.submitted) == LAYERS
    for number in range(LAYERS - 1, 0, -1):
        host = [call for call in by_host(between(calls, f"layer {number} goes backward",
                                                 f"layer {number - 1} goes backward")) if call[1] != "note"]
        assert [call[1:3] for call in host] == [("cuMemAlloc", 0), ("cuMemcpyAsync", recording.gpu.stream),
                                                ("cuEventRecord", recording.gpu.stream)]


def test_the_host_waits_for_nothing_before_step(step):
    recording, _, calls = step
    during = by_host(between(calls, "backward begins", "backward ends"))
    assert {call[1] for call in during} == {"note", "cuMemAlloc", "cuMemcpyAsync", "cuEventRecord"}
    assert "host waits" not in [call[2] for call in during if call[1] == "note"]
    after = by_host(between(calls, "backward ends", "step ends"))
    assert [call[2] for call in after if call[1] == "note"] == ["host waits"] * LAYERS


def test_they_are_reduced_on_a_stream_of_ours_behind_their_events(step):
    recording, _, calls = step
    theirs = recording.gpu.stream
    during = between(calls, "backward begins", "backward ends")
    others = [call for call in during if call[0] != threading.get_native_id()]
    streams = {call[2] for call in others if call[2]}
    assert streams and theirs not in streams and 0 not in streams
    events = [call[3] for call in by_host(during) if call[1] == "cuEventRecord"]
    waits = [call for call in others if call[1] == "cuStreamWaitEvent" and call[3] in events]
    assert {call[3] for call in waits} <= set(events) and waits
    # The first event is waited for before anything reads the first gradient.
    # (In a stream of its own each kernel has been launched once, with nothing to do.)
    ours = waits[0][2]
    work = [i for i, call in enumerate(others) if call[1] in ("cuMemcpyAsync", "cuLaunchKernel") and call[2] == ours]
    assert work and others.index(waits[0]) < work[0]


def test_a_gradient_is_reduced_before_the_backward_pass_is_over(step):
    _, _, calls = step
    assert "first gradient is done: True" in [call[2] for call in between(calls, "layer 0 goes backward", "backward ends")
                                              if call[1] == "note"]
