"""horovod.runner: run(), which runs a function on ranks, and what scripts import from beside it."""

from muster.run_function import run
