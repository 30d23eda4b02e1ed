"""What a rank that hvdrun has started sees of its GPU and of the job's store: inside.py, for tests/gpu/run."""

import os

import torch
import torch.distributed as dist

if __name__ == "__main__":
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    mask = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    assert mask.startswith(("GPU-", "MIG-")), f"CUDA_VISIBLE_DEVICES={mask!r}: not by UUID"
    uuid = str(torch.cuda.get_device_properties(0).uuid)
    assert uuid in mask, f"the first GPU is {uuid}, and the mask is {mask}"
    assert os.sched_getaffinity(0), "no core"
    # torch's own client on the store that the agent keeps.
    dist.init_process_group("gloo")
    values = torch.tensor([rank + 1.0])
    dist.all_reduce(values)
    assert values.item() == size * (size + 1) / 2, values
    store = dist.distributed_c10d._get_default_store()
    store.set(f"key{rank}", str(rank))
    assert store.get(f"key{(rank + 1) % size}") == str((rank + 1) % size).encode()
    assert store.add("sum", rank + 1) > 0
    dist.barrier()
    assert store.add("sum", 0) == size * (size + 1) // 2
    dist.destroy_process_group()
    print(f"right: rank {rank} on {mask.split(',')[0]}, torch {torch.__version__}", flush=True)
