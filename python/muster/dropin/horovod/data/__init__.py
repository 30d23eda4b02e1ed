"""horovod.data: data loaders that work ahead."""

from muster.data import AsyncDataLoaderMixin, BaseDataLoader
