"""The messages of launchers, generated from proto/muster/v1 when Muster is built.

    from muster.v1 import launcher_pb2, launcher_pb2_grpc

They need protobuf, and launcher_pb2_grpc needs grpcio. `muster.client` is the client that is built on them. Loading them
loads neither libmuster nor NumPy.
"""

import os as _os


def _generated_folders():
    """Returns where the modules may be if they are not beside this file: the build tree of this source tree."""
    here = _os.path.dirname(_os.path.abspath(__file__))
    # Don't resolve links: in a build tree the package `muster` is a link.
    root = _os.path.dirname(_os.path.dirname(here))
    generated = _os.path.join("generated_python", "muster", "v1")
    return [_os.path.join(_os.path.dirname(root), generated),
            _os.path.join(_os.path.dirname(root), "build", "release", generated)]


if not _os.path.exists(_os.path.join(__path__[0], "launcher_pb2.py")):
    __path__ += [_folder for _folder in _generated_folders() if _os.path.isdir(_folder)]
