"""Small questions that scripts ask of Horovod."""

import importlib.util


def extension_available(ext_base_name, verbose=False):
    """Whether `ext_base_name` ("torch", "tensorflow", …) is installed, and Muster has a module for it."""
    del verbose
    is_ours = importlib.util.find_spec(f"muster.{ext_base_name}") is not None
    return is_ours and importlib.util.find_spec(ext_base_name) is not None


def gpu_available(ext_base_name, verbose=False):
    """Whether tensors on GPUs are supported: not yet."""
    del ext_base_name, verbose
    return False


def split_list(items, parts):
    """`items` as `parts` lists in order, whose lengths differ by one at most."""
    length, longer = divmod(len(items), parts)
    ends = [length * (i + 1) + min(i + 1, longer) for i in range(parts)]
    return [items[begin:end] for begin, end in zip([0] + ends, ends)]


def num_rank_is_power_2(num_rank):
    """Whether it is a power of two."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0
