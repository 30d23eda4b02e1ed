"""torch.distributed with gloo between the ranks of a benchmark. Imports torch only when it is used."""


class GlooRanks:
    def __init__(self):
        import torch.distributed as dist
        self._dist = dist
        dist.init_process_group("gloo")
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def barrier(self):
        self._dist.barrier()

    def gather(self, numbers):
        """The lists of all ranks."""
        gathered = [None] * self.size
        self._dist.all_gather_object(gathered, numbers)
        return gathered

    def end(self):
        self._dist.destroy_process_group()
