"""The package `horovod` on Muster: scripts that import it run unchanged.

hvdrun puts the folder of this package at the end of the ranks' PYTHONPATH. Python searches site-packages only after
that. So this file checks whether another Horovod is installed. If so, this file loads the installed Horovod instead,
unless MUSTER_HOROVOD (hvdrun --horovod) is "muster". Rank 0 prints on stderr which Horovod is used.
"""

import importlib.machinery
import importlib.util
import os
import sys

_OWN = os.path.join("muster", "dropin", "horovod", "__init__.py")


def _is_own(file):
    return os.path.realpath(file).endswith(_OWN)  # true for every build or installation of Muster


def _find_installed():
    """Returns the spec of an installed `horovod` that is not Muster's. None if no other is installed."""
    path = [folder for folder in sys.path if not _is_own(os.path.join(folder, "horovod", "__init__.py"))]
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)  # older finders have only find_module()
        if find is None:
            continue
        # Ask all finders, because a package that is installed in place may have its own.
        spec = find("horovod", path if finder is importlib.machinery.PathFinder else None)
        if spec is not None and spec.origin is not None and not _is_own(spec.origin):
            return spec
    return None


def _tell(line):
    """Prints a line on stderr, on rank 0 only and not in its helper processes."""
    rank = os.environ.get("MUSTER_RANK", os.environ.get("HOROVOD_RANK", "0"))
    processes = sys.modules.get("multiprocessing.process")
    if rank == "0" and (processes is None or processes.parent_process() is None):
        print(f"muster: {line}", file=sys.stderr, flush=True)


def _version_of(folder):
    """Returns the version from the metadata of the installed package, because the package is not imported yet."""
    from importlib import metadata
    for found in metadata.distributions(name="horovod", path=[os.path.dirname(folder)]):
        return found.version
    return "the one"


def _load_installed():
    """Puts the installed Horovod in this module's place if it must be used. Returns True if it did."""
    wish = os.environ.get("MUSTER_HOROVOD") or "auto"
    if wish not in ("auto", "muster", "installed"):
        raise ImportError(f"MUSTER_HOROVOD={wish} is none of auto, muster, installed")
    spec = None if wish == "muster" else _find_installed()
    if spec is None:
        if wish == "installed":
            raise ImportError("MUSTER_HOROVOD=installed, but this Python has no Horovod of its own: install it "
                              "(pip install horovod), or take Muster's (hvdrun --horovod muster)")
        return False
    folder = os.path.dirname(spec.origin)
    _tell(f"horovod is {_version_of(folder)} in {folder}; --horovod muster takes Muster's")
    module = importlib.util.module_from_spec(spec)
    sys.modules["horovod"] = module
    spec.loader.exec_module(module)
    return True


if not _load_installed():
    import muster as _muster
    from muster.run_function import run

    _tell(f"horovod is Muster's {_muster.__version__}; --horovod installed takes an installed one")
    # The version of the API that this is; scripts compare it.
    __version__ = "0.28.1"
