"""Programs of ranks for the tests of Horovod's API, and how hvdrun is told to run them."""

from conftest import BIN_DIR, REPOSITORY

LIBRARY = BIN_DIR.parent / "lib/libmuster.so"


def python_rank(program, *arguments):
    """hvdrun's arguments that run the text `program` with muster on its path."""
    return ["-x", f"PYTHONPATH={REPOSITORY / 'python'}", "-x", f"MUSTER_LIBRARY={LIBRARY}", "/usr/bin/python3", "-B",
            "-c", program, *arguments]
