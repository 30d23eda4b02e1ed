"""A sampler that goes on in the middle of an epoch with what was not processed yet."""

import random

from torch.utils.data import Sampler

from muster.world import rank, size


class ElasticSampler(Sampler):
    """Shares out the samples of an epoch that were not processed yet to all ranks, equally many to each (some twice
    where they do not come out even).

    dataset: has a length. shuffle, seed: the same on all ranks. Call set_epoch() before an epoch and record_batch()
    after a batch."""

    def __init__(self, dataset, shuffle=True, seed=0):
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_indices = set()
        self.reset()

    def set_epoch(self, epoch):
        """Begins an epoch: nothing of it was processed, and the order is another."""
        self.epoch = epoch
        self.processed_indices = set()
        self.reset()

    def record_batch(self, batch_idx, batch_size):
        """This rank has processed its batch `batch_idx` of batches of `batch_size` since the last reset()."""
        self.record_indices(self.get_indices(batch_idx, batch_size))

    def record_indices(self, indices):
        """These samples were processed."""
        self.processed_indices.update(indices)

    def get_indices(self, batch_idx, batch_size):
        """The samples of this rank's batch `batch_idx`."""
        return self.indices[batch_idx * batch_size:(batch_idx + 1) * batch_size]

    def state_dict(self):
        """What load_state_dict() takes."""
        return {"epoch": self.epoch, "processed_indices": set(self.processed_indices)}

    def load_state_dict(self, state_dict):
        """Goes on from there."""
        self.epoch = state_dict["epoch"]
        self.processed_indices = set(state_dict["processed_indices"])
        self.reset()

    def reset(self):
        """Shares out anew what was not processed, to the ranks that there are now."""
        self.num_replicas, self.rank = size(), rank()
        remaining = [i for i in range(len(self.dataset)) if i not in self.processed_indices]
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(remaining)
        self.num_samples = -(-len(remaining) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas
        self.remaining_indices = remaining
        padded = [remaining[i % len(remaining)] for i in range(self.total_size)]
        self.indices = padded[self.rank:self.total_size:self.num_replicas]

    def __iter__(self):
        return iter(self.indices)

    def __len__(self):
        return self.num_samples
