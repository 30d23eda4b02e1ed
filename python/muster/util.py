"""Small functions that scripts import from Horovod."""

import contextlib
import functools
import importlib.util
import os
import sysconfig
import warnings

from muster import world

EXTENSIONS = ["tensorflow", "torch", "mxnet"]


def get_ext_suffix():
    """Returns the ending of the names of this Python's compiled modules."""
    return sysconfig.get_config_var("EXT_SUFFIX") or ".so"


def get_extension_full_path(pkg_path, *args):
    """Returns the path that a compiled module would have: args[-1] in the folders args[:-1] beside the file `pkg_path`.
    Muster has no compiled modules."""
    return os.path.join(os.path.dirname(pkg_path), *args[:-1], args[-1] + get_ext_suffix())


def extension_available(ext_base_name, verbose=False):
    """Returns True if `ext_base_name` ("torch", "tensorflow", …) is installed and Muster has a module for it."""
    del verbose
    is_ours = importlib.util.find_spec(f"muster.{ext_base_name}") is not None
    return is_ours and importlib.util.find_spec(ext_base_name) is not None


def check_extension(ext_name, ext_env_var, pkg_path, *args):
    """Raises ImportError if Muster has no module `ext_name` ("horovod.torch"), or if its framework is not installed.
    The other arguments are not used, because nothing is compiled."""
    del ext_env_var, pkg_path, args
    framework = ext_name.rpartition(".")[2]
    if not extension_available(framework):
        raise ImportError(f"{ext_name} cannot be used: {framework} is not installed, or Muster has no module for it")


def gpu_available(ext_base_name, verbose=False):
    """Returns True if tensors of `ext_base_name` can stay on GPUs of this host. Only those of "torch" can. Tensors of
    other frameworks are copied to the host."""
    del verbose
    if ext_base_name != "torch" or not extension_available("torch"):
        return False
    import torch
    return torch.cuda.is_available()


def _without_verbose(function):
    """Returns `function` with Horovod's extra argument `verbose`, which is not used."""
    def call(verbose=False):
        del verbose
        return function()

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = function.__doc__
    return call


mpi_built, gloo_built, nccl_built, ddl_built, ccl_built = map(_without_verbose, (
    world.mpi_built, world.gloo_built, world.nccl_built, world.ddl_built, world.ccl_built))


def is_iterable(x):
    """Returns True if iter() accepts `x`."""
    try:
        iter(x)
    except TypeError:
        return False
    return True


def split_list(items, parts):
    """Splits `items` into `parts` lists, in order. Their lengths differ by at most one."""
    length, longer = divmod(len(items), parts)
    ends = [length * (i + 1) + min(i + 1, longer) for i in range(parts)]
    return [items[begin:end] for begin, end in zip([0] + ends, ends)]


def num_rank_is_power_2(num_rank):
    """Returns True if `num_rank` is a power of two."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def _cache(function):
    """Returns `function` with a cache of its results. Its arguments must be hashable."""
    return functools.lru_cache(maxsize=None)(function)


@contextlib.contextmanager
def env(**variables):
    """Sets variables of the environment, and restores them at the end. Variables with the value None stay unchanged."""
    given = {name: value for name, value in variables.items() if value is not None}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def get_average_backwards_compatibility_fun(reduce_ops):
    """Returns a function (op, average) that returns the reduction: `op`, or the meaning of the older argument
    `average`. Reductions are attributes of `reduce_ops`. The function raises ValueError if both are set."""
    def reduction_of(op, average):
        if op is not None and average is not None:
            raise ValueError("set op or average (the older argument), and not both")
        if average is not None:
            warnings.warn("average is the older argument: use op", DeprecationWarning)
        if op is not None:
            return op
        return reduce_ops.Sum if average is False else reduce_ops.Average

    return reduction_of


def check_installed_version(name, version, exception=None):
    """Raises `exception` if it is not None. Otherwise accepts every version, because Muster is not compiled against a
    framework."""
    del name, version
    if exception is not None:
        raise exception


def is_version_greater_equal_than(ver, target):
    """Returns True if version `ver` is not older than `target` ("major.minor.patch"). It ignores text behind the number
    of a part. ValueError: an argument is not a string, or `target` does not have three parts."""
    if not (isinstance(ver, str) and isinstance(target, str)):
        raise ValueError(f"versions must be strings, not {type(ver).__name__} and {type(target).__name__}")
    if target.count(".") != 2:
        raise ValueError(f"'{target}' does not have the form major.minor.patch")
    return _numbers_of(ver) >= _numbers_of(target)


def _numbers_of(version):
    """Returns [2, 1, 0] for "2.1.0+cpu"."""
    numbers = []
    for part in version.partition("+")[0].split(".")[:3]:
        digits = part[:len(part) - len(part.lstrip("0123456789"))]
        numbers.append(int(digits or 0))
    return numbers + [0] * (3 - len(numbers))
