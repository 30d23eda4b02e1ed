"""Makes `import horovod` find Muster's package with hvdrun --horovod muster, wherever another Horovod lies.

hvdrun puts this folder first on a rank's PYTHONPATH. Python runs this file before the rank's program. PYTHONPATH alone
is not enough, because Python searches the script's folder before PYTHONPATH. So this file adds a finder, which Python
asks before it searches any folder.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_DROPIN = os.path.join(os.path.dirname(_HERE), "dropin", "horovod")


class _HorovodFinder:
    """Finds Muster's `horovod`, and nothing else."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        """Returns the spec of `horovod`. None for every other name."""
        del path, target
        if name != "horovod":
            return None
        return importlib.util.spec_from_file_location(name, os.path.join(_DROPIN, "__init__.py"),
                                                      submodule_search_locations=[_DROPIN])


def _run_hidden_file():
    """Runs the sitecustomize of the user or the system. Without this call Python would run only this file."""
    folders = [folder for folder in sys.path if os.path.abspath(folder) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", folders)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("MUSTER_HOROVOD") == "muster":
    sys.meta_path.insert(0, _HorovodFinder)
_run_hidden_file()
