"""horovod.torch, which is muster.torch."""

import importlib as _importlib

from muster.torch import *

# Scripts reach them as attributes, hvd.mpi_ops.rank(), where those of Muster's modules of these names are now.
for _name in ("compression", "elastic", "functions", "mpi_ops", "optimizer", "sync_batch_norm"):
    _importlib.import_module(f"{__name__}.{_name}")
