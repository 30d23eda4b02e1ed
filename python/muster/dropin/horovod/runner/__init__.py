"""horovod.runner: run(), which runs a function on ranks, and the modules that scripts import from here."""

from muster.run_function import run
