"""horovod.torch.functions."""

from muster.torch import allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters
