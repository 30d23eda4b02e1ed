"""Horovod's elastic names for PyTorch: see muster.elastic for what they do in a job of a fixed number of ranks."""

from muster.elastic import ObjectState, State, run
from muster.torch.elastic.sampler import ElasticSampler
from muster.torch.elastic.state import (ModelStateHandler, OptimizerStateHandler, SamplerStateHandler, StateHandler,
                                        TorchState, get_handler_registry, set_handler_registry)
