"""Checks of muster.torch and its backend of torch.distributed on tensors of a GPU that computes them while they are called:
for train.py on a GPU, and for tests/python/ranks/test_gpu_programs.py on one that is none, so that these lines have run before.
"""

import contextlib
import copy

import torch
import torch.distributed as dist

import muster.torch as hvd

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.uint8]


def rows_of(rank, kind):
    """Rows of a rank's tensor: the same on all, or no rank's the mean of all, one of them none."""
    return {"even": 1000 * hvd.size(), "ragged": 7000 * rank * rank, "few": rank}[kind]


def values(rank, rows, dtype):
    """Small whole numbers, so that sums are exact in every type; each rank computes those of all."""
    return ((torch.arange(3 * rows) * (rank + 3)) % 5).to(dtype).view(rows, 3)


@contextlib.contextmanager
def at_work(device):
    """A stream of its own, which has something to do first: what is called has to wait for it."""
    if torch.device(device).type != "cuda":
        yield
        return
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        large = torch.rand(2048, 2048, device=device)
        for _ in range(5):
            large = large @ large / 2048
        yield
        stream.synchronize()


def there(tensor, device):
    """Computed on the device, behind what it is at."""
    return tensor.to(device) * 2 - tensor.to(device)


def same(result, expected, device, what):
    """The next thing on the stream reads the result."""
    assert result.device.type == torch.device(device).type, f"{what} is on {result.device}"
    on_host = (result + 0).cpu()
    assert on_host.dtype == expected.dtype and on_host.shape == expected.shape, (what, on_host.shape, expected.shape)
    assert torch.equal(on_host, expected), (what, (on_host != expected).nonzero()[:4])


def scattered(tensor):
    """That part of its rows that this rank gets."""
    share, more = divmod(len(tensor), hvd.size())
    begin = hvd.rank() * share + min(hvd.rank(), more)
    return tensor[begin:begin + share + (hvd.rank() < more)]


def check_gathers(device):
    size, rank = hvd.size(), hvd.rank()
    for dtype in DTYPES:
        for kind in ("even", "ragged", "few"):
            everyones = [values(r, rows_of(r, kind), dtype) for r in range(size)]
            with at_work(device):
                result = hvd.allgather(there(everyones[rank], device))
                same(result, torch.cat(everyones), device, f"allgather of {dtype}, {kind}")
    with at_work(device):
        both = [[values(r, rows_of(r, kind), torch.float32) for r in range(size)] for kind in ("even", "ragged")]
        for result, all_ranks in zip(hvd.grouped_allgather([there(one[rank], device) for one in both]), both):
            same(result, torch.cat(all_ranks), device, "grouped allgather")


def check_alltoalls(device):
    size, rank = hvd.size(), hvd.rank()
    for dtype in DTYPES:
        everyones = [values(r, rows_of(r, "even"), dtype) for r in range(size)]
        with at_work(device):
            result = hvd.alltoall(there(everyones[rank], device))
            same(result, torch.cat([one.chunk(size)[rank] for one in everyones]), device, f"alltoall of {dtype}")
    splits = [[5000 * ((r + 2 * to) % 3) + r for to in range(size)] for r in range(size)]
    everyones = [values(r, sum(splits[r]), torch.float32) for r in range(size)]
    with at_work(device):
        result, received = hvd.alltoall(there(everyones[rank], device), splits=splits[rank])
        assert received.tolist() == [splits[r][rank] for r in range(size)]
        same(result, torch.cat([one.split(splits[r])[rank] for r, one in enumerate(everyones)]), device, "alltoall")


def check_scatters(device):
    size, rank = hvd.size(), hvd.rank()
    for dtype in DTYPES:
        for rows in (4 * size, 4000 * size + 1, 1):
            everyones = [values(r, rows, dtype) for r in range(size)]
            with at_work(device):
                result = hvd.reducescatter(there(everyones[rank], device), op=hvd.Sum)
                same(result, scattered(sum(everyones)), device, f"reducescatter of {dtype}, {rows} rows")
    everyones = [values(r, 100 * size + 1, torch.float32) for r in range(size)]
    with at_work(device):
        scaled = hvd.reducescatter(there(everyones[rank], device), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4)
        same(scaled, scattered(sum(everyones)) * 2, device, "reducescatter with scales")
        pair = [there(everyones[rank], device), there(everyones[rank], device).double()]
        for result, dtype in zip(hvd.grouped_reducescatter(pair, op=hvd.Sum), (torch.float32, torch.float64)):
            same(result, scattered(sum(everyones)).to(dtype), device, "grouped reducescatter")


def check_memory(device):
    """Results that are dropped at once, and calls in another order on each rank: memory that is given again too early, or is
    written before its stream has left it, shows."""
    size, rank = hvd.size(), hvd.rank()
    for step in range(20):
        everyones = [values(r, (step + 1) * 500 * (r + 1), torch.float32) + step for r in range(size)]
        order = range(3) if rank % 2 else range(2, -1, -1)
        with at_work(device):
            handles = {i: hvd.allgather_async(there(everyones[rank] + i, device), name=f"memory.{i}") for i in order}
            for i in range(3):
                result = hvd.synchronize(handles[i])
                doubled = result * 2
                del result
                same(doubled, torch.cat(everyones) * 2 + 2 * i, device, f"step {step}")


def check_backward(device):
    size, rank = hvd.size(), hvd.rank()
    with at_work(device):
        rows = [rows_of(r, "few") + 1 for r in range(size)]
        given = there(values(rank, rows[rank], torch.float32), device).requires_grad_()
        weights = values(7, sum(rows), torch.float32) + 1  # the same on all ranks, and so is their average
        (hvd.allgather(given) * weights.to(device)).sum().backward()
        same(given.grad, weights.split(rows)[rank], device, "the gradient of allgather")
    with at_work(device):
        given = there(values(rank, 2 * size, torch.float32), device).requires_grad_()
        hvd.alltoall(given).square().sum().backward()
        same(given.grad, 2 * values(rank, 2 * size, torch.float32), device, "the gradient of alltoall")
    with at_work(device):
        given = there(values(rank, size + 1, torch.float32), device).requires_grad_()
        (hvd.reducescatter(given, op=hvd.Average) * (rank + 1.0)).sum().backward()
        expected = torch.cat([torch.full((1 + (r == 0), 3), r + 1.0) for r in range(size)])
        same(given.grad, expected, device, "the gradient of reducescatter")


def check_distributed(device):
    """Of the default process group, whose backend is muster."""
    size, rank = hvd.size(), hvd.rank()
    everyones = [values(r, 5000, torch.float32) for r in range(size)]
    with at_work(device):
        tensor = there(everyones[rank], device)
        dist.all_reduce(tensor)
        same(tensor, sum(everyones), device, "all_reduce")
        dist.broadcast(tensor.copy_(everyones[rank]), src=size - 1)
        same(tensor, everyones[-1], device, "broadcast")
        whole = torch.empty(5000 * size, 3, device=device)
        dist.all_gather_into_tensor(whole, there(everyones[rank], device))
        same(whole, torch.cat(everyones), device, "all_gather_into_tensor")
        part = torch.empty(5000, 3, device=device)
        dist.reduce_scatter_tensor(part, whole)
        same(part, everyones[rank] * size, device, "reduce_scatter_tensor")
        dist.all_to_all_single(torch.empty_like(whole), whole)
        dist.reduce(part, dst=0)  # through the host
        if rank == 0:
            same(part, sum(everyones) * size, device, "reduce")
    works = [dist.all_reduce(torch.full((1000,), float(i + rank), device=device), async_op=True) for i in range(40)]
    for i, work in enumerate(works):
        work.wait()
        same(work.result()[0], torch.full((1000,), i * size + size * (size - 1) / 2), device, f"all_reduce {i}")
    check_parallel(device)


def check_parallel(device):
    """DistributedDataParallel beside one process."""
    size, rank = hvd.size(), hvd.rank()
    torch.manual_seed(3)
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(256, 256), torch.nn.Tanh())]
    ours = torch.nn.Sequential(*layers).to(device)
    alone = copy.deepcopy(ours)
    parallel = torch.nn.parallel.DistributedDataParallel(ours, bucket_cap_mb=0.3)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in (ours, alone)]
    for step in range(5):
        inputs = torch.randn(8 * size, 256, generator=torch.Generator().manual_seed(step)).to(device)
        for model, optimizer, part in ((parallel, optimizers[0], inputs[8 * rank:8 * rank + 8]),
                                       (alone, optimizers[1], inputs)):
            optimizer.zero_grad()
            model(part).square().mean().backward()
            optimizer.step()
    for one, other in zip(ours.parameters(), alone.parameters()):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def check_all(device):
    """What needs no process group."""
    for check in (check_gathers, check_alltoalls, check_scatters, check_memory, check_backward):
        check(device)
