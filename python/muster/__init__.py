"""Muster in Python: Horovod's API on libmuster, without compiling anything against a framework.

    import muster.torch as hvd          # or muster.tensorflow, muster.keras, muster.mxnet, muster.numpy

Each module imports its framework when it is imported itself; this package imports none.
"""


def __getattr__(name):
    # Loads libmuster only when it is needed: muster.client and muster.v1 do without it.
    if name == "__version__":
        from muster import _library

        return _library.version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def heartbeat(step=None):
    """Tells the launcher that this rank goes on. Call it once per step of a training loop, in any script.

    `muster status` then says which rank comes last, and by how much. A job whose ranks beat does not count as hanging.
    `step` is the number of the step, from 0. Without it the calls are counted, so all ranks must call it equally often.
    Needs no init(), never waits, and does nothing without a launcher."""
    from muster import _library

    _library.muster_heartbeat(-1 if step is None else step)


def empty_registered(shape, dtype="float32", name=None):
    """Returns a NumPy array of zeros in memory that the ranks of a host share (muster.numpy.empty_registered()).

    For arrays that are reduced again and again in place, from any framework that can work in memory of NumPy. Needs
    init() of the framework's module."""
    from muster import numpy

    return numpy.empty_registered(shape, dtype, name)


def enable_stack_dumps():
    """Lets `muster stacks` and the reports of hangs ask this process for its Python stack by a real-time signal.

    Needed only where the agent may not read the memory of the ranks, because of a strict kernel.yama.ptrace_scope or a
    container. Needs no init(), and does nothing without a launcher. Returns True if the agent can ask from now on."""
    from muster import stack_dumps

    return stack_dumps.enable()
