"""How fast torch packs and unpacks the same tensors on the same GPU: torch_copies.py NAME FILE prints lines of JSON.

FILE: numbers of elements, one a line. Median of 13 times 20 repetitions, as gpu_kernels measures. `torch_copies.py link`:
how fast pinned memory of the host is copied to the GPU and back, the limit of what is staged.
"""

import json
import sys
import time

import torch


def median_seconds(work, times=20):
    each = []
    for _ in range(13):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(times):
            work()
        torch.cuda.synchronize()
        each.append((time.perf_counter() - begin) / times)
    return sorted(each)[len(each) // 2]


def main(name, path):
    with open(path, encoding="utf-8") as lines:
        sizes = [int(line) for line in lines]
    tensors = [torch.rand(size, device="cuda") for size in sizes]
    buffer = torch.empty(sum(sizes), device="cuda")
    parts = list(buffer.split(sizes))
    moved = 8 * sum(sizes)
    for op, work in (("torch_cat", lambda: torch.cat(tensors, out=buffer)),
                     ("torch_foreach_copy", lambda: torch._foreach_copy_(parts, tensors)),
                     ("torch_foreach_copy_back", lambda: torch._foreach_copy_(tensors, parts)),
                     ("torch_copy_each", lambda: [part.copy_(one) for part, one in zip(parts, tensors)])):
        work()
        seconds = median_seconds(work)
        print(json.dumps({"op": op, "model": name, "tensors": len(sizes), "bytes": 4 * sum(sizes),
                          "us": round(seconds * 1e6, 1), "gbs": round(moved / seconds / 1e9)}))


def measure_link():
    size = 256 << 20
    host, device = [[torch.empty(size, dtype=torch.uint8, **where) for _ in range(2)]
                    for where in ({"pin_memory": True}, {"device": "cuda"})]
    down = torch.cuda.Stream()

    def copy_up():
        device[0].copy_(host[0], non_blocking=True)

    def copy_down():
        host[1].copy_(device[1], non_blocking=True)

    def copy_both():
        copy_up()
        with torch.cuda.stream(down):
            copy_down()

    for op, work, moved in (("host_to_device", copy_up, size), ("device_to_host", copy_down, size),
                            ("both_ways", copy_both, 2 * size)):
        work()
        print(json.dumps({"op": op, "bytes": size, "gbs": round(moved / median_seconds(work, times=5) / 1e9, 1)}))


if __name__ == "__main__":
    if sys.argv[1] == "link":
        measure_link()
    else:
        main(*sys.argv[1:])
