"""horovod.torch, which is muster.torch."""

import importlib as _importlib

from muster.torch import *

# Import this package's modules, because scripts use them as attributes (hvd.mpi_ops.rank()). Before the import, these
# attributes are Muster's modules of the same names.
for _name in ("compression", "elastic", "functions", "mpi_ops", "optimizer", "sync_batch_norm"):
    _importlib.import_module(f"{__name__}.{_name}")
