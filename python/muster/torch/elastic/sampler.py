"""A sampler that goes on in the middle of an epoch with what was not processed yet."""

import random

from torch.utils.data import Sampler

from muster.world import rank, size


class ElasticSampler(Sampler):
    """Shares out the samples of an epoch that were not processed yet to all ranks, equally many to each (some twice
    where they do not come out even).

    dataset: has a length. shuffle, seed: the same on all ranks. Call record_batch() after a batch, and set_epoch() after
    an epoch. `processed_num` counts the samples of the epoch that all ranks together have processed: they are the first
    ones of the epoch's order. The sampler of Horovod 0.28 counts in the same way, and its checkpoints can be loaded; so
    can those of 0.27, which list samples (`processed_indices`)."""

    def __init__(self, dataset, shuffle=True, seed=0):
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.processed_indices = set()  # by a checkpoint of 0.27: these are left out of the epoch's order
        self.reset()

    def set_epoch(self, epoch):
        """Begins an epoch: nothing of it was processed, and the order is another."""
        self.epoch = epoch
        self.processed_num = 0
        self.processed_indices = set()
        self.reset()

    def record_batch(self, batch_idx, batch_size):
        """Every rank has processed a batch of `batch_size`. `batch_idx` is not used."""
        del batch_idx
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self):
        """What load_state_dict() takes."""
        state = {"epoch": self.epoch, "processed_num": self.processed_num}
        if self.processed_indices:
            state["processed_indices"] = set(self.processed_indices)
        return state

    def load_state_dict(self, state_dict):
        """Goes on from there."""
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict.get("processed_num", 0)
        self.processed_indices = set(state_dict.get("processed_indices", ()))
        self.reset()

    def reset(self):
        """Shares out anew what was not processed, to the ranks that there are now."""
        self.num_replicas, self.rank = size(), rank()
        order = [i for i in range(len(self.dataset)) if i not in self.processed_indices]
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        remaining = order[self.processed_num:]
        self.num_samples = -(-len(remaining) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas
        self.remaining_indices = remaining
        padded = [remaining[i % len(remaining)] for i in range(self.total_size)]
        self.indices = padded[self.rank:self.total_size:self.num_replicas]

    def __iter__(self):
        return iter(self.indices)

    def __len__(self):
        return self.num_samples
