"""horovod.torch, which is muster.torch."""

import importlib as _importlib

from muster.torch import *

# Import these modules: scripts use them as attributes (hvd.mpi_ops.rank()), and Muster's modules of the same names are
# there until then.
for _name in ("compression", "elastic", "functions", "mpi_ops", "optimizer", "sync_batch_norm"):
    _importlib.import_module(f"{__name__}.{_name}")
