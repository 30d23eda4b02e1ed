"""horovod.mxnet, which is muster.mxnet."""

import importlib as _importlib

from muster.mxnet import *

# Import this package's modules, because scripts use them as attributes (hvd.mpi_ops.rank()). Before the import, these
# attributes are Muster's modules of the same names.
for _name in ("compression", "functions", "mpi_ops"):
    _importlib.import_module(f"{__name__}.{_name}")
