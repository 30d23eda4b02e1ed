"""horovod.common.elastic: the states, and run_fn()."""

from muster.elastic import ObjectState, State, run_fn
