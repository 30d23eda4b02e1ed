"""horovod.mxnet, which is muster.mxnet."""

import importlib as _importlib

from muster.mxnet import *

# Scripts reach them as attributes, hvd.mpi_ops.rank(), where those of Muster's modules of these names are now.
for _name in ("compression", "functions", "mpi_ops"):
    _importlib.import_module(f"{__name__}.{_name}")
