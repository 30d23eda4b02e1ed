"""A rank of a training with muster.torch on a GPU that the ranks share: train.py, started by tests/gpu/run.

Two models, each rank's with a start of its own until it is broadcast: one trained by all ranks with DistributedOptimizer, each on its part of every batch, and one
by this rank alone on whole batches. They have to stay the same, up to rounding. Then operations one by one against what they
have to give, on streams of their own, without a synchronization between (operations.py has those whose results have other
sizes, and torch.distributed); then how much of the gradients' way is hidden behind the backward pass. Prints "right" or raises.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist

import muster.torch as hvd
import muster.torch.distributed  # noqa: F401
import operations


def model(seed=7):
    torch.manual_seed(seed)
    layers = []
    for _ in range(12):
        layers += [torch.nn.Linear(1024, 1024), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(1024, 10)).cuda()


def check_training():
    # Every rank's own start; rank 0's is what broadcast_parameters() has to give to all.
    ours, alone = model(7 + hvd.rank()), model()
    assert torch.equal(ours[0].weight, alone[0].weight) == (hvd.rank() == 0)
    start = 0.01
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(ours.parameters(), lr=start, momentum=0.9),
                                         named_parameters=ours.named_parameters())
    hvd.broadcast_parameters(ours.state_dict(), root_rank=0)
    for one, other in zip(ours.parameters(), alone.parameters()):
        assert torch.equal(one, other), "broadcast_parameters() left a rank's own values"
    reference = torch.optim.SGD(alone.parameters(), lr=start, momentum=0.9)
    for step in range(20):
        torch.manual_seed(step)
        inputs, targets = torch.randn(8 * hvd.size(), 1024).cuda(), torch.randint(10, (8 * hvd.size(),)).cuda()
        part = slice(8 * hvd.rank(), 8 * hvd.rank() + 8)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(ours(inputs[part]), targets[part]).backward()
        optimizer.step()
        reference.zero_grad()
        torch.nn.functional.cross_entropy(alone(inputs), targets).backward()
        reference.step()
    for one, other in zip(ours.parameters(), alone.parameters()):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    state = torch.cat([parameter.detach().flatten() for parameter in ours.parameters()])
    everyones = hvd.allgather(state.unsqueeze(0))
    assert everyones.is_cuda and all(torch.equal(row, everyones[0]) for row in everyones), "ranks differ"


def check_operations():
    size, rank = hvd.size(), hvd.rank()
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            tensor = torch.ones(100_003, dtype=dtype, device="cuda")
            for _ in range(10):  # the device is still at this when the operation is called
                tensor = tensor + 1
            result = hvd.allreduce(tensor * (rank + 1), name=f"sum.{dtype}", op=hvd.Sum)
            expected = 11 * size * (size + 1) // 2
            assert torch.equal(result, torch.full_like(result, expected)), (dtype, result[:4], expected)
    for i, result in enumerate(hvd.grouped_allreduce([torch.full((i,), rank + 1.0, device="cuda") for i in range(300)],
                                                     op=hvd.Sum)):
        assert torch.equal(result, torch.full((i,), size * (size + 1) / 2, device="cuda")), i
    assert hvd.broadcast(torch.full((7,), float(rank), device="cuda"), root_rank=size - 1).eq(size - 1).all()
    for compression, epsilon in ((hvd.Compression.fp16, 2.0 ** -11), (hvd.Compression.bf16, 2.0 ** -8)):
        # Cast as they are packed and unpacked: what is lost is what the cast loses, and no more.
        torch.manual_seed(rank)
        given = [torch.randn(1 + 37 * i, device="cuda") for i in range(200)]
        exact = hvd.grouped_allreduce(given, op=hvd.Sum)
        small = hvd.grouped_allreduce(given, op=hvd.Sum, compression=compression)
        for one, other in zip(small, exact):
            assert one.dtype == torch.float32 and one.is_cuda
            assert (one - other).abs().max() <= 16 * size * epsilon, (compression, (one - other).abs().max())
        lost = torch.full((3,), 1 + 2.0 ** -13, device="cuda", requires_grad=True)  # beside 1, in both types
        result = hvd.allreduce(lost, op=hvd.Sum, name=f"lost.{compression.__name__}", compression=compression)
        assert torch.equal(result, torch.full_like(result, size)), result
        result.sum().backward()
        assert torch.equal(lost.grad, torch.full_like(lost, size)), lost.grad
    try:
        hvd.allreduce(torch.ones(3, device="cuda" if rank == 0 else "cpu"), name="mixed")
        assert size == 1, "tensors of a GPU and of the CPU were reduced together"
    except hvd.HorovodInternalError as problem:
        assert "on a GPU" in str(problem), problem


def seconds_of(work, times=20):
    work()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(times):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / times


def measure_overlap():
    ours = model()
    plain = torch.optim.SGD(ours.parameters(), lr=1e-4)
    inputs = torch.randn(512, 1024).cuda()

    def step(optimizer):
        optimizer.zero_grad()
        ours(inputs).square().mean().backward()
        optimizer.step()

    def step_apart():
        plain.zero_grad()
        ours(inputs).square().mean().backward()
        hvd.grouped_allreduce_([parameter.grad for parameter in ours.parameters()], name="apart")
        plain.step()

    alone = seconds_of(lambda: step(plain))
    gradients = [torch.rand_like(parameter) for parameter in ours.parameters()]
    ways = seconds_of(lambda: hvd.grouped_allreduce_(gradients, name="gradients"))
    apart = seconds_of(step_apart)
    optimizer = hvd.DistributedOptimizer(plain, named_parameters=ours.named_parameters())
    together = seconds_of(lambda: step(optimizer))
    if hvd.rank() == 0:
        # apart: gradients are reduced when the backward pass is over; saved: of that step's time.
        times = {"compute_us": alone, "allreduce_us": ways, "apart_us": apart, "step_us": together}
        print(json.dumps({"op": "training_step", "ranks": hvd.size(),
                          **{name: round(seconds * 1e6) for name, seconds in times.items()},
                          "hidden": round(1 - (together - alone) / ways, 2),
                          "saved": round(1 - together / apart, 2)}, separators=(",", ":")), flush=True)


def check_distributed():
    folder = os.environ["MUSTER_RENDEZVOUS"].removeprefix("file://")  # of start_ranks
    dist.init_process_group("muster", init_method=f"file://{folder}/torch", rank=hvd.rank(), world_size=hvd.size())
    operations.check_distributed("cuda")
    dist.destroy_process_group()


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("skipped: torch sees no GPU")
        sys.exit(77)
    hvd.init()
    torch.cuda.set_device(0)
    check_operations()
    operations.check_all("cuda")
    check_distributed()
    check_training()
    measure_overlap()
    hvd.shutdown()
    print("right", flush=True)
