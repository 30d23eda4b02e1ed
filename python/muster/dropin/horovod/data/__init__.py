"""horovod.data: data loaders that prepare batches ahead of time."""

from muster.data import AsyncDataLoaderMixin, BaseDataLoader
