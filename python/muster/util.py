"""Small questions that scripts ask of Horovod."""

import importlib.util

from muster import world


def extension_available(ext_base_name, verbose=False):
    """Whether `ext_base_name` ("torch", "tensorflow", …) is installed, and Muster has a module for it."""
    del verbose
    is_ours = importlib.util.find_spec(f"muster.{ext_base_name}") is not None
    return is_ours and importlib.util.find_spec(ext_base_name) is not None


def check_extension(ext_name, ext_env_var, pkg_path, *args):
    """ImportError: `ext_name` ("horovod.torch") is no module of Muster's, or what it is for is not installed. The rest
    is not used: nothing is built."""
    del ext_env_var, pkg_path, args
    framework = ext_name.rpartition(".")[2]
    if not extension_available(framework):
        raise ImportError(f"{ext_name} cannot be used: {framework} is not installed, or Muster has no module for it")


def gpu_available(ext_base_name, verbose=False):
    """Whether tensors of `ext_base_name` can lie on GPUs of this host: those of "torch"; others go through the host."""
    del verbose
    if ext_base_name != "torch" or not extension_available("torch"):
        return False
    import torch
    return torch.cuda.is_available()


def _without_verbose(function):
    """That of muster.world as Horovod has it here, with `verbose`, which is not used."""
    def call(verbose=False):
        del verbose
        return function()

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = function.__doc__
    return call


mpi_built, gloo_built, nccl_built, ddl_built, ccl_built = map(_without_verbose, (
    world.mpi_built, world.gloo_built, world.nccl_built, world.ddl_built, world.ccl_built))


def is_iterable(x):
    """Whether iter() takes it."""
    try:
        iter(x)
    except TypeError:
        return False
    return True


def split_list(items, parts):
    """`items` as `parts` lists in order, whose lengths differ by one at most."""
    length, longer = divmod(len(items), parts)
    ends = [length * (i + 1) + min(i + 1, longer) for i in range(parts)]
    return [items[begin:end] for begin, end in zip([0] + ends, ends)]


def num_rank_is_power_2(num_rank):
    """Whether it is a power of two."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0
