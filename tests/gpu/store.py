"""torch's own client on the store that the agent of rank 0's host keeps: store.py [killed], started by `muster torchrun`.

Every call that this torch's TCPStore has, then process groups over it. With "killed" rank 1 kills itself in the first
attempt while the others wait in the store; in the second the store knows nothing of the first. A rank prints "right" or
raises. tests/gpu/run starts it with the torch of a machine with a GPU, tests/e2e with those of tools/peers.
"""

import datetime
import os
import signal
import sys

import torch
import torch.distributed as dist

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
PATIENCE = datetime.timedelta(seconds=90)
AT_ONCE = datetime.timedelta(milliseconds=300)


def connected():
    assert os.environ["TORCHELASTIC_USE_AGENT_STORE"] == "True", "rank 0 would serve its own store"
    return dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), SIZE, False, PATIENCE)


def meet(store, name):
    """All ranks have come here, by nothing but set and wait."""
    store.set(f"{name} {RANK}", "")
    store.wait([f"{name} {rank}" for rank in range(SIZE)], PATIENCE)


def fails(call, *arguments):
    try:
        call(*arguments)
    except RuntimeError:  # and what younger ones derive from it
        return True
    return False


def check_values(store):
    store.set(f"rank {RANK}", f"of {RANK}")
    assert [store.get(f"rank {rank}") for rank in range(SIZE)] == [b"of %d" % rank for rank in range(SIZE)]
    store.set(f"large {RANK}", "x" * (5 << 20))
    assert len(store.get(f"large {(RANK + 1) % SIZE}")) == 5 << 20
    store.set(f"bytes {RANK}", bytes(range(256)))
    assert store.get(f"bytes {RANK}") == bytes(range(256))
    store.add("sum", RANK + 1)
    meet(store, "added")
    assert store.add("sum", 0) == SIZE * (SIZE + 1) // 2
    first = store.compare_set("first", "", str(RANK))
    assert store.get("first") == first and store.compare_set("first", "none", "else") == first
    meet(store, "compared")


def check_waiting(store):
    """One that gives up, and goes on to be of use; one that is answered by the next rank."""
    assert fails(store.wait, [f"never {RANK}"], AT_ONCE), "a wait for a missing key ended well"
    meet(store, "gave up")
    for turn in range(20):
        mine, before = f"turn {turn} {RANK}", f"turn {turn} {RANK - 1}"
        if RANK > 0:
            store.wait([before], PATIENCE)
        store.set(mine, "")
    meet(store, "took turns")


def check_keys(store):
    own = f"own {RANK}"
    store.set(own, "1")
    assert store.delete_key(own) and not store.delete_key(own)
    meet(store, "deleted")
    assert store.num_keys() > 4 * SIZE
    named = dist.PrefixStore("prefix", store)
    named.set(own, "in prefix")
    assert named.get(own) == store.get(f"prefix/{own}") == b"in prefix"


def check_younger_calls(store):
    """Those that came with torch 2.1 and after it; returns which are there."""
    has = {name for name in ("check", "append", "multi_get", "multi_set", "clone", "list_keys", "queue_push", "barrier")
           if hasattr(store, name)}
    if "check" in has:
        assert store.check(["first"]) and not store.check(["first", "never"])
    if {"append", "multi_get", "multi_set"} <= has:
        store.multi_set([f"m {RANK}", f"n {RANK}"], ["a", ""])
        store.append(f"m {RANK}", "bc")
        assert store.multi_get([f"m {RANK}", f"n {RANK}", "first"]) == [b"abc", b"", store.get("first")]
    if "clone" in has:
        assert store.clone().get("first") == store.get("first")
    if "list_keys" in has:
        assert {"first", f"rank {SIZE - 1}"} <= set(store.list_keys())
    if "queue_push" in has:  # to the next rank, which may be waiting already
        for i in range(50):
            store.queue_push(f"queue {(RANK + 1) % SIZE}", f"{RANK} {i}")
        got = [store.queue_pop(f"queue {RANK}") for _ in range(50)]
        assert got == [b"%d %d" % ((RANK - 1) % SIZE, i) for i in range(50)], got[:3]
        assert store.queue_len(f"queue {RANK}") == 0 and fails(store.queue_pop, f"queue {RANK}", False)
    if "barrier" in has:
        store.barrier("barrier", SIZE, PATIENCE)
    meet(store, "younger")
    return has


def check_groups():
    """Once: a group's keys stay in the store, and a second one of the same name would read them, as under torchrun."""
    dist.init_process_group("gloo", timeout=PATIENCE)
    total = torch.arange(1000.0) * (RANK + 1)
    dist.all_reduce(total)
    assert torch.equal(total, torch.arange(1000.0) * (SIZE * (SIZE + 1) / 2))
    everyone = [None] * SIZE
    dist.all_gather_object(everyone, RANK)
    assert everyone == list(range(SIZE))
    pair = dist.new_group([0, SIZE - 1])
    if RANK in (0, SIZE - 1):
        both = torch.ones(1)
        dist.all_reduce(both, group=pair)
        assert both.item() == len({0, SIZE - 1})
    dist.monitored_barrier()
    dist.barrier()
    dist.destroy_process_group()


def be_killed(store):
    """Rank 1, while the others wait for it."""
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    assert store.add("of this attempt", 1) <= SIZE, "a key of the first attempt is there in the second"
    meet(store, f"attempt {attempt}")
    if attempt > 0:
        return
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    store.wait(["of rank 1"], PATIENCE)
    raise AssertionError("a key came that nobody sets")


def main():
    store = connected()
    if sys.argv[1:] == ["killed"]:
        be_killed(store)
        done = {"killed"}
    else:
        check_values(store)
        check_waiting(store)
        check_keys(store)
        done = check_younger_calls(store)
        if torch.__version__.startswith("2.1."):
            done.add("no groups: taking one down may lock up torch 2.1")
        else:
            check_groups()
    print(f"right: rank {RANK} of {SIZE}, torch {torch.__version__}: {', '.join(sorted(done))}", flush=True)


if __name__ == "__main__":
    main()
