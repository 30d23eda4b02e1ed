"""What a rank that hvdrun has started sees of its GPUs and cores: inside.py BINDING, for tests/gpu/run.

BINDING: what --gpu-bind was: order, one or none. The ranks tell each other what they see over torch's own env://.
"""

import os
import sys

import torch
import torch.distributed as dist


def check_gpus(binding, local_rank):
    """What was bound, in a word."""
    mask = os.environ.get("CUDA_VISIBLE_DEVICES")
    count = torch.cuda.device_count()
    assert count > 0, f"no GPU, with CUDA_VISIBLE_DEVICES={mask!r}"
    if binding == "none":
        assert mask == os.environ.get("MASK_BEFORE") or not mask, f"CUDA_VISIBLE_DEVICES={mask!r}, though nothing was to be bound"
        return "no mask"
    named = mask.split(",")
    assert all(name.startswith(("GPU-", "MIG-")) for name in named), f"CUDA_VISIBLE_DEVICES={mask!r}: not by UUID"
    assert len(named) == count and (binding == "order" or count == 1), f"{count} GPUs, and the mask is {mask}"
    # As scripts choose theirs. With `order` number local_rank is the nearest.
    device = 0 if binding == "one" else local_rank % count
    uuid = str(torch.cuda.get_device_properties(device).uuid)
    assert uuid in named[device], f"number {device} is {uuid}, and the mask is {mask}"
    assert torch.ones(1000, device=f"cuda:{device}").sum().item() == 1000
    return named[device]


def check_cores(everyones, local_rank):
    """Shares that are equal, up to the threads of one core, and nobody else's."""
    shares = [set(cores) for cores in everyones]
    assert all(shares), "a rank has no core"
    assert len(set.union(*shares)) == sum(map(len, shares)), f"ranks share cores: {everyones}"
    assert max(map(len, shares)) - min(map(len, shares)) <= 2, everyones
    assert 1 <= int(os.environ["OMP_NUM_THREADS"]) <= len(shares[local_rank]), os.environ["OMP_NUM_THREADS"]


def main(binding):
    rank, size, local_rank = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    bound = check_gpus(binding, local_rank)
    dist.init_process_group("gloo")
    everyones = [None] * size
    dist.all_gather_object(everyones, sorted(os.sched_getaffinity(0)))
    check_cores(everyones, local_rank)
    values = torch.tensor([rank + 1.0])
    dist.all_reduce(values)
    assert values.item() == size * (size + 1) / 2, values
    dist.barrier()
    dist.destroy_process_group()
    print(f"right: {binding}: rank {rank} on {bound} and cores {everyones[rank]}, torch {torch.__version__}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
