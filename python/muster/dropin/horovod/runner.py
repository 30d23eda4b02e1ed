"""horovod.runner: run(), which runs a function on ranks."""

from muster.run_function import run
