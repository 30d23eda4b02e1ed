"""Reads this process's rank from its environment, without joining the job."""

import os

_NAMES = (("HOROVOD_RANK", "HOROVOD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
          ("PMI_RANK", "PMI_SIZE"))


def get_env_rank_and_size():
    """Returns (rank, size) from the variables of Horovod, Open MPI or PMI: the first pair that is set. Returns (0, 1)
    if no pair is set. RuntimeError: only one variable of a pair is set."""
    for names in _NAMES:
        values = [os.environ.get(name) for name in names]
        if None not in values:
            return int(values[0]), int(values[1])
        if values != [None, None]:
            raise RuntimeError(f"only one of {names[0]} and {names[1]} is set: set both or neither")
    return 0, 1
