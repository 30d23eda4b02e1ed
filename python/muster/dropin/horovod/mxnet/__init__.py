"""horovod.mxnet, which is muster.mxnet."""

import importlib as _importlib

from muster.mxnet import *

# Import these modules: scripts use them as attributes (hvd.mpi_ops.rank()), and Muster's modules of the same names are
# there until then.
for _name in ("compression", "functions", "mpi_ops"):
    _importlib.import_module(f"{__name__}.{_name}")
