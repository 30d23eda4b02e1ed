"""What tests of muster.torch share: tensors that every rank can compute for all ranks."""

import torch

import muster.torch as hvd

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
TYPES = [*FLOATS, *INTEGERS, torch.bool]


def values(rank, shape, dtype=torch.float32, seed=0):
    """The tensor of `rank`: small integers, so that sums and products are exact in every type."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    low, high = (0, 2) if dtype == torch.bool else (1, 4)
    return torch.randint(low, high, shape, generator=generator).to(dtype)


def noise(rank, shape, dtype=torch.float32, seed=0):
    """The tensor of `rank`: normally distributed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(1000 * seed + rank), dtype=dtype)


def everyone(make, *args, **kwargs):
    """A list of make(rank, ...) for all ranks."""
    return [make(rank, *args, **kwargs) for rank in range(hvd.size())]


def own(tensors):
    """This rank's."""
    return tensors[hvd.rank()]


def assert_same(tensor, expected):
    """Equal in type, shape and every bit that compares."""
    assert tensor.dtype == expected.dtype
    assert tensor.shape == expected.shape
    assert torch.equal(tensor, expected), (tensor, expected)


def assert_same_on_all_ranks(tensors):
    """Bitwise: what the ranks have is compared as bytes."""
    bits = torch.cat([tensor.detach().contiguous().reshape(-1).view(torch.uint8) for tensor in tensors])
    table = hvd.allgather(bits.view(1, -1))
    for row in table:
        assert torch.equal(row, bits)


def adasum_of(tensors):
    """Of a power of two of tensors, pair by pair."""
    if len(tensors) == 1:
        return tensors[0]
    half = len(tensors) // 2
    a, b = adasum_of(tensors[:half]), adasum_of(tensors[half:])
    dot, aa, bb = (float((x.double() * y.double()).sum()) for x, y in ((a, b), (a, a), (b, b)))
    return a * (1 - dot / (2 * aa) if aa else 1) + b * (1 - dot / (2 * bb) if bb else 1)
