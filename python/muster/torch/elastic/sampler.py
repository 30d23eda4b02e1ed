"""A sampler that can continue in the middle of an epoch with the unprocessed samples."""

import random

from torch.utils.data import Sampler

from muster.world import rank, size


class ElasticSampler(Sampler):
    """Distributes the unprocessed samples of an epoch to all ranks, the same number to each. If the samples do not
    divide evenly, some of them occur twice.

    dataset: anything with a length. shuffle, seed: the same on all ranks. Call record_batch() after a batch, and
    set_epoch() after an epoch.
    `processed_num` counts the samples of the epoch that all ranks together have processed. They are the first samples
    in the order of the epoch. The sampler of Horovod 0.28 counts in the same way, so its checkpoints can be loaded.
    Checkpoints of 0.27 can be loaded, too. They list samples (`processed_indices`)."""

    def __init__(self, dataset, shuffle=True, seed=0):
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.processed_indices = set()  # from a checkpoint of 0.27; the order of the epoch omits them
        self.reset()

    def set_epoch(self, epoch):
        """Begins an epoch. Its samples are all unprocessed, and their order is new."""
        self.epoch = epoch
        self.processed_num = 0
        self.processed_indices = set()
        self.reset()

    def record_batch(self, batch_idx, batch_size):
        """Records that every rank has processed a batch of `batch_size`. `batch_idx` is not used."""
        del batch_idx
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self):
        """Returns the state for load_state_dict()."""
        state = {"epoch": self.epoch, "processed_num": self.processed_num}
        if self.processed_indices:
            state["processed_indices"] = set(self.processed_indices)
        return state

    def load_state_dict(self, state_dict):
        """Continues from this state."""
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict.get("processed_num", 0)
        self.processed_indices = set(state_dict.get("processed_indices", ()))
        self.reset()

    def reset(self):
        """Distributes the unprocessed samples again, to the present ranks."""
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
