"""Horovod's elastic API for PyTorch. muster.elastic explains what it does."""

from muster.elastic import ObjectState, State, run, run_fn
from muster.torch.elastic.sampler import ElasticSampler
from muster.torch.elastic.state import (LRSchedulerStateHandler, ModelStateHandler, OptimizerStateHandler,
                                        SamplerStateHandler, StateHandler, TorchState, get_handler_registry,
                                        set_handler_registry)
