"""One rank of bench/allreduce under torch.distributed with gloo, as mpi_allreduce.c; in place, as torch's always is.
RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as for torch; sizes as arguments."""

import json
import sys
import time

import torch
import torch.distributed

WARM_UP, MINIMUM, MAXIMUM = 10, 10, 2000


def one_allreduce(tensor, value):
    tensor.fill_(float(value))
    torch.distributed.barrier()
    begin = time.perf_counter()
    torch.distributed.all_reduce(tensor)
    return time.perf_counter() - begin


def agreed_iterations(tensor):
    """As many as take a second by rank 0's clock; also warms up."""
    begin = time.perf_counter()
    for i in range(WARM_UP):
        one_allreduce(tensor, i)
    wanted = WARM_UP / (time.perf_counter() - begin)
    iterations = torch.tensor(max(MINIMUM, min(MAXIMUM, int(wanted))))
    torch.distributed.broadcast(iterations, 0)
    return int(iterations)


def measure(tensor, iterations):
    """Seconds of the slowest rank in each iteration, and how many elements of all ranks are wrong."""
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    own = torch.tensor([one_allreduce(tensor, i % 1024 + rank) for i in range(iterations)], dtype=torch.float64)
    expected = ((iterations - 1) % 1024) * ranks + ranks * (ranks - 1) // 2
    wrong = (tensor != float(expected)).sum()
    torch.distributed.all_reduce(own, op=torch.distributed.ReduceOp.MAX)
    torch.distributed.all_reduce(wrong)
    return sorted(own.tolist()), int(wrong)


def main():
    smallest, largest, factor = (int(word) for word in sys.argv[1:4])
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    size = smallest
    while size <= largest:
        tensor = torch.empty(size // 4, dtype=torch.float32)
        iterations = agreed_iterations(tensor)
        seconds, wrong = measure(tensor, iterations)
        if torch.distributed.get_rank() == 0:
            line = {"bytes": size, "p50_us": seconds[iterations // 2] * 1e6,
                    "p99_us": seconds[iterations * 99 // 100] * 1e6, "wrong": wrong}
            print(json.dumps(line), flush=True)
        size *= factor
    torch.distributed.destroy_process_group()


main()
