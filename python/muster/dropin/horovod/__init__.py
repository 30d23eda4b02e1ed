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


def _print_on_rank_0(line):
    """Prints a line on stderr. Only rank 0 prints it, and none of its helper processes."""
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
    """Loads the installed Horovod in place of this module if it must be used. Returns True if it did so."""
    choice = os.environ.get("MUSTER_HOROVOD") or "auto"
    if choice not in ("auto", "muster", "installed"):
        raise ImportError(f"MUSTER_HOROVOD={choice} is unknown: use auto, muster or installed")
    spec = None if choice == "muster" else _find_installed()
    if spec is None:
        if choice == "installed":
            raise ImportError("MUSTER_HOROVOD=installed, but Horovod is not installed for this Python: install it "
                              "(pip install horovod), or use Muster's (hvdrun --horovod muster)")
        return False
    folder = os.path.dirname(spec.origin)
    _print_on_rank_0(f"horovod is {_version_of(folder)} in {folder}; use --horovod muster for Muster's")
    module = importlib.util.module_from_spec(spec)
    sys.modules["horovod"] = module
    spec.loader.exec_module(module)
    return True


if not _load_installed():
    import muster as _muster
    from muster.run_function import run

    _print_on_rank_0(f"horovod is Muster's {_muster.__version__}; use --horovod installed for an installed one")
    # The version of Horovod whose API this package has. Scripts compare it.
    __version__ = "0.28.1"
