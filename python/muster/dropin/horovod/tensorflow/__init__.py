"""horovod.tensorflow, which is muster.tensorflow."""

import importlib as _importlib

from muster.tensorflow import *

# Import this package's modules, because scripts use them as attributes (hvd.mpi_ops.rank()). Before the import, these
# attributes are Muster's modules of the same names.
for _name in ("compression", "functions", "mpi_ops", "sync_batch_norm", "util"):
    _importlib.import_module(f"{__name__}.{_name}")
from horovod.tensorflow.mpi_ops import check_num_rank_power_of_2, handle_average_backwards_compatibility
from horovod.tensorflow.util import _cache, _executing_eagerly, _make_subgraph, refs_to_vars, vars_to_refs
