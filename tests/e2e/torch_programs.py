"""What ranks run in the tests of torch, whichever generation it is: every TCPStore call across hosts, sums, and a rank
that fails in the first attempt."""

SUM = r"""
import os, sys
import torch, torch.distributed as dist
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int)
parser.add_argument("--dist-url", default="env://")
parser.add_argument("--rank", type=int, default=-1)
parser.add_argument("--world-size", type=int, default=-1)
given = parser.parse_args()
dist.init_process_group("gloo", init_method=given.dist_url, rank=given.rank, world_size=given.world_size)
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
store = os.environ.get("TORCHELASTIC_USE_AGENT_STORE", "-")
print(f"sum {int(total)} of {dist.get_world_size()} local {given.local_rank} {os.environ['LOCAL_RANK']} store {store}",
      flush=True)
os._exit(0)  # torch 2.1 may lock itself up when it takes a gloo group down
"""

# The store that the agent serves, used directly by ranks of all hosts.
STORE = r"""
import datetime, os, torch
from torch.distributed import TCPStore
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, False, datetime.timedelta(seconds=90))
store.set(f"rank {rank}", f"of {rank}")
store.wait([f"rank {other}" for other in range(size)])
assert [store.get(f"rank {other}") for other in range(size)] == [b"of %d" % other for other in range(size)]
assert store.add("sum", rank + 1) <= size * (size + 1) // 2
store.set(f"added {rank}", "")
store.wait([f"added {other}" for other in range(size)])
assert store.add("sum", 0) == size * (size + 1) // 2
first = store.compare_set("first", "", str(rank))
assert store.get("first") == first
if hasattr(store, "check"):
    assert store.check(["first"]) and not store.check(["first", "never"])
store.set(f"counted {rank}", "")
store.wait([f"counted {other}" for other in range(size)])
if rank == 0:
    before = store.num_keys()
    assert store.delete_key("first") and not store.delete_key("first")
    assert store.num_keys() == before - 1
    store.set("large", "x" * (1 << 20))
assert len(store.get("large")) == 1 << 20
print("store of torch", torch.__version__, "done", flush=True)
"""

# Ranks of the first attempt meet, then rank 2 fails; the second attempt finds none of the first one's keys.
FAILS_ONCE = r"""
import datetime, os, torch, torch.distributed as dist
rank, size, attempt = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(os.environ["MUSTER_ATTEMPT"])
assert int(os.environ["TORCHELASTIC_RESTART_COUNT"]) == attempt and os.environ["TORCHELASTIC_MAX_RESTARTS"] == "2"
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, False,
                      datetime.timedelta(seconds=90))
assert store.add("attempts so far", 1) <= size
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=90))
total = torch.ones(1) * (rank + 1)
dist.all_reduce(total)
if attempt == 0 and rank == 2:
    os._exit(3)
if attempt == 0:
    dist.all_reduce(total)  # never comes back well
print(f"attempt {attempt} sum {int(total)}", flush=True)
os._exit(0)
"""
