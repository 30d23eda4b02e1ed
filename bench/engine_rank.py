"""One rank of bench/engine in Python; hvdrun starts it. One JSON line of rank 0, as that of engine_perf: the time of one
allreduce of 4 bytes, and that of 64 MiB in 100 tensors of uneven sizes, all in place.

    hvdrun -np 2 /usr/bin/python3 bench/engine_rank.py CONTESTANT

Every rank writes its tensors anew before each iteration, and all begin together; the time of an iteration is that of
its slowest rank."""

import importlib
import json
import sys
import time

from gloo_ranks import GlooRanks

LATENCY_WARM_UP, LATENCY_ITERATIONS = 200, 2000
MANY_WARM_UP, MANY_ITERATIONS = 5, 30
ELEMENTS, TENSORS = 16 << 20, 100
# What DistributedDataParallel makes of gradients: bytes of the first bucket and of the others.
FIRST_BUCKET, BUCKET = 1 << 20, 25 << 20


def sizes():
    """Elements of each of the 100 tensors, from few to many; together 64 MiB of fp32."""
    begins = [ELEMENTS * i * (i + 1) // (TENSORS * (TENSORS + 1)) for i in range(TENSORS + 1)]
    return [after - begin for begin, after in zip(begins, begins[1:])]


class Numpy:
    """muster.numpy."""

    def __init__(self):
        self._hvd = importlib.import_module("muster.numpy")
        self._hvd.init()
        self.rank, self.size = self._hvd.rank(), self._hvd.size()

    def make(self, count):
        import numpy
        return numpy.empty(count, dtype=numpy.float32)

    def barrier(self):
        self._hvd.barrier()

    def reduce(self, tensors, names):
        handles = [self._hvd.allreduce_async_(tensor, name=name, op=self._hvd.Sum)
                   for tensor, name in zip(tensors, names)]
        for handle in handles:
            self._hvd.synchronize(handle)

    def gather(self, numbers):
        """The lists of all ranks."""
        return self._hvd.allgather_object(numbers)

    def end(self):
        self._hvd.shutdown()


class HorovodTorch(Numpy):
    """muster.torch or horovod.torch."""

    def __init__(self, module):
        import torch
        torch.set_num_threads(1)
        self._torch = torch
        self._hvd = importlib.import_module(module)
        self._hvd.init()
        self.rank, self.size = self._hvd.rank(), self._hvd.size()
        self._token = torch.zeros(1)

    def make(self, count):
        return self._torch.empty(count)

    def barrier(self):
        self._hvd.allreduce_(self._token, name="barrier")  # older Horovods have no barrier()


class Gloo(GlooRanks):
    """torch.distributed: dist.all_reduce(async_op=True) of each tensor."""

    def __init__(self):
        import torch
        torch.set_num_threads(1)
        self._torch = torch
        super().__init__()

    def make(self, count):
        return self._torch.empty(count)

    def reduce(self, tensors, _):
        for work in [self._dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
            work.wait()


class GlooBuckets(Gloo):
    """As DistributedDataParallel does it: tensors are copied into buckets of 25 MB (the first one of 1 MB), of which
    each is reduced as soon as it is full, and copied back."""

    def __init__(self):
        super().__init__()
        self._buckets = {}

    def _buckets_of(self, tensors):
        """[(flat tensor, [tensors], [its views])]."""
        found = self._buckets.get(id(tensors))
        if found is None:
            members, limit = [[]], FIRST_BUCKET
            for tensor in tensors:
                members[-1].append(tensor)
                if 4 * sum(each.numel() for each in members[-1]) >= limit:
                    members.append([])
                    limit = BUCKET
            found = self._buckets[id(tensors)] = []
            for some in filter(None, members):
                flat = self._torch.empty(sum(each.numel() for each in some))
                found.append((flat, some, flat.split([each.numel() for each in some])))
        return found

    def reduce(self, tensors, _):
        works = []
        for flat, members, views in self._buckets_of(tensors):
            for view, tensor in zip(views, members):
                view.copy_(tensor)
            works.append((self._dist.all_reduce(flat, async_op=True), members, views))
        for work, members, views in works:
            work.wait()
            for view, tensor in zip(views, members):
                tensor.copy_(view)


CONTESTANTS = {
    "numpy": Numpy,
    "torch": lambda: HorovodTorch("muster.torch"),
    "horovod": lambda: HorovodTorch("horovod.torch"),
    "gloo": Gloo,
    "gloo-buckets": GlooBuckets,
}


def value_of(iteration, rank):
    return float((iteration + 8) % 8 + rank)


def measure(library, tensors, names, warm_up, iterations):
    """Seconds of the slowest rank in each iteration, sorted, and how many elements of all ranks are wrong."""
    times = []
    for i in range(-warm_up, iterations):
        for tensor in tensors:
            tensor[:] = value_of(i, library.rank)
        library.barrier()
        begin = time.perf_counter()
        library.reduce(tensors, names)
        if i >= 0:
            times.append(time.perf_counter() - begin)
    expected = sum(value_of(iterations - 1, rank) for rank in range(library.size))
    wrong = sum(int((tensor != expected).sum()) for tensor in tensors)
    everybody = library.gather([wrong, *times])
    return sorted(max(each) for each in zip(*(one[1:] for one in everybody))), sum(one[0] for one in everybody)


def at(ordered, percent):
    return ordered[(len(ordered) - 1) * percent // 100]


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in CONTESTANTS:
        sys.exit(f"usage: engine_rank.py {'|'.join(CONTESTANTS)}")
    library = CONTESTANTS[sys.argv[1]]()
    latency, latency_wrong = measure(library, [library.make(1)], ["small"], LATENCY_WARM_UP, LATENCY_ITERATIONS)
    tensors = [library.make(count) for count in sizes()]
    begin = time.process_time()
    many, many_wrong = measure(library, tensors, [f"many.{i}" for i in range(TENSORS)], MANY_WARM_UP, MANY_ITERATIONS)
    cpu = (time.process_time() - begin) / (MANY_WARM_UP + MANY_ITERATIONS)
    if library.rank == 0:
        print(json.dumps({"ranks": library.size, "p50_us": at(latency, 50) * 1e6, "p99_us": at(latency, 99) * 1e6,
                          "many_p50_ms": at(many, 50) * 1e3, "many_p99_ms": at(many, 99) * 1e3,
                          "many_cpu_ms": cpu * 1e3, "wrong": latency_wrong + many_wrong}), flush=True)
    library.end()


main()
