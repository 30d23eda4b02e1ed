"""Runs a training script as it is, and looks at its parameters after every step: every rank has the same bits.

    checked_training.py SCRIPT ARGUMENTS…

Each rank prints "checked <steps> steps of <ranks> ranks" at the end; a step after which ranks differ ends it with an
AssertionError."""

import hashlib
import runpy
import sys

import horovod.torch as hvd

distributed = hvd.DistributedOptimizer
steps = 0


def digest(optimizer):
    """Of all parameters' bits."""
    found = hashlib.sha256()
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            found.update(parameter.detach().numpy().tobytes())
    return found.hexdigest()


def checked(*args, **options):
    """DistributedOptimizer() whose step() compares the ranks."""
    optimizer = distributed(*args, **options)
    step = optimizer.step

    def step_and_compare(*step_args, **step_options):
        global steps
        result = step(*step_args, **step_options)
        steps += 1
        digests = hvd.allgather_object(digest(optimizer))
        assert len(set(digests)) == 1, f"after step {steps} ranks differ: {digests}"
        return result

    optimizer.step = step_and_compare
    return optimizer


hvd.DistributedOptimizer = checked
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
print(f"checked {steps} steps of {hvd.size()} ranks", flush=True)
