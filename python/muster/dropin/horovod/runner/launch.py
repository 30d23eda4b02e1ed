"""horovod.runner.launch: horovodrun as a module, python -m horovod.runner.launch -np 2 python train.py."""

import os
import sys

from horovod.common.util import gloo_built, mpi_built
from muster.run_function import find_hvdrun


def is_gloo_used(use_gloo=None, use_mpi=None, use_jsrun=None):
    """Returns True if ranks find each other as with Horovod's Gloo. False if the arguments ask for MPI or jsrun."""
    return bool(use_gloo) or not (use_mpi or use_jsrun)


def run_commandline():
    """Replaces this process by horovodrun with the same arguments. FileNotFoundError: hvdrun is not found."""
    os.execv(find_hvdrun(), ["horovodrun", *sys.argv[1:]])


if __name__ == "__main__":
    run_commandline()
