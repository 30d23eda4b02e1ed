"""Muster in Python: Horovod's API on libmuster, without compiling anything against a framework.

    import muster.torch as hvd          # or muster.tensorflow, muster.keras, muster.mxnet, muster.numpy

Each module imports its framework when it is imported itself; this package imports none.
"""

from muster._library import version as _version

__version__ = _version()
