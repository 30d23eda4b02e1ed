"""Horovod's elastic API for PyTorch. muster.elastic explains what it does in a job with a fixed number of ranks."""

from muster.elastic import ObjectState, State, run
from muster.torch.elastic.sampler import ElasticSampler
from muster.torch.elastic.state import (ModelStateHandler, OptimizerStateHandler, SamplerStateHandler, StateHandler,
                                        TorchState, get_handler_registry, set_handler_registry)
