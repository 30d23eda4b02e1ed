"""horovod.torch.elastic.sampler."""

from muster.torch.elastic import ElasticSampler
