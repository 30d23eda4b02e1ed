"""horovod.common.elastic: the states."""

from muster.elastic import ObjectState, State
