"""horovod.tensorflow.elastic."""

from muster.tensorflow.elastic import TensorFlowKerasState, TensorFlowState, run
