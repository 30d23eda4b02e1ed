"""How fast torch packs the same tensors on the same GPU: torch_copies.py NAME FILE prints lines of JSON.

FILE: numbers of elements, one a line. Median of 13 times 20 repetitions, as gpu_kernels measures.
"""

import json
import sys
import time

import torch


def median_seconds(work):
    times = []
    for _ in range(13):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(20):
            work()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / 20)
    return sorted(times)[len(times) // 2]


def main(name, path):
    with open(path, encoding="utf-8") as lines:
        sizes = [int(line) for line in lines]
    tensors = [torch.rand(size, device="cuda") for size in sizes]
    buffer = torch.empty(sum(sizes), device="cuda")
    parts = list(buffer.split(sizes))
    moved = 8 * sum(sizes)
    for op, work in (("torch_cat", lambda: torch.cat(tensors, out=buffer)),
                     ("torch_foreach_copy", lambda: torch._foreach_copy_(parts, tensors)),
                     ("torch_copy_each", lambda: [part.copy_(one) for part, one in zip(parts, tensors)])):
        work()
        seconds = median_seconds(work)
        print(json.dumps({"op": op, "model": name, "tensors": len(sizes), "bytes": 4 * sum(sizes),
                          "us": round(seconds * 1e6, 1), "gbs": round(moved / seconds / 1e9)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
