"""horovod.tensorflow.functions."""

from muster.tensorflow.functions import (allgather_object, broadcast_, broadcast_global_variables, broadcast_object,
                                         broadcast_object_fn, broadcast_variables)
