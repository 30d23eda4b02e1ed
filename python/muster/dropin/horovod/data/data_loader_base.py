"""horovod.data.data_loader_base."""

from muster.data import AsyncDataLoaderMixin, BaseDataLoader
