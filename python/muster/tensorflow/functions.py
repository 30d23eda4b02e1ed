"""Broadcasts the state of a training to all ranks: variables, or any object."""

import tensorflow as tf

from muster import numpy as arrays
from muster.tensorflow.operations import call, unconverted
from muster.world import global_process_set


def _assign_all(variables, root_rank, name, process_set):
    """Assigns the values of `root_rank`. Returns the assignments, in the order of the variables."""
    def function(values, label):
        begun = [arrays.broadcast_async(value, root_rank, f"{label or 'variables'}.{i}", process_set)
                 for i, value in enumerate(values)]
        return [arrays.synchronize(handle) for handle in begun]

    tensors = [tf.convert_to_tensor(variable) for variable in variables]
    received = call("broadcast", function, tensors, [tensor.shape for tensor in tensors], name=name,
                    process_set=process_set)
    return [variable.assign(value) for variable, value in zip(variables, received)]


@unconverted
def broadcast_variables(variables, root_rank, process_set=global_process_set, inplace=False):
    """Gives all ranks the values of `root_rank` (a rank of the world). All broadcasts run at the same time. In a graph
    of TensorFlow 1 it returns an operation that does this. `inplace` is not used: the values are always assigned to the
    variables."""
    del inplace
    variables = list(variables)
    if not variables:
        return None
    assigned = _assign_all(variables, root_rank, None, process_set)
    # A tf.function runs the assignments by itself.
    return None if tf.compat.v1.executing_eagerly_outside_functions() else tf.group(*assigned)


@unconverted
def broadcast_(variables, root_rank, name=None, process_set=global_process_set):
    """Does broadcast_variables(), and returns the new values of the variables as tensors. If a session of TensorFlow 1
    computes one of these tensors, it assigns all variables."""
    variables = list(variables)
    if not variables:
        return []
    with tf.control_dependencies([tf.group(*_assign_all(variables, root_rank, name, process_set))]):
        return [variable.read_value() if hasattr(variable, "read_value") else tf.convert_to_tensor(variable)
                for variable in variables]


def broadcast_global_variables(root_rank):
    """Returns, in a graph of TensorFlow 1, the operation that gives all ranks the global variables of `root_rank`.
    RuntimeError: TensorFlow executes eagerly and has no global variables. Then use broadcast_variables() with the
    variables of the model."""
    if tf.executing_eagerly():
        raise RuntimeError("broadcast_global_variables() does not support eager execution: "
                           "use broadcast_variables(model.variables, root_rank)")
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """A hook for monitored sessions of tf.compat.v1. It gives all ranks the global variables of `root_rank` when a
    session is made. `device` is not used."""

    def __init__(self, root_rank, device=""):
        del device
        self._root_rank = root_rank
        self._operation = None

    def begin(self):
        """Makes the operation. The session calls this before it finalizes the graph."""
        self._operation = broadcast_global_variables(self._root_rank)

    def after_create_session(self, session, coord):
        """Runs the operation."""
        del coord
        session.run(self._operation)


def broadcast_object(obj, root_rank=0, session=None, name=None, process_set=global_process_set):
    """Returns the object of `root_rank` on all ranks. It must be possible to pickle the object. `session` is not
    used."""
    del session
    return arrays.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(root_rank=0, session=None, name=None, process_set=global_process_set):
    """Returns broadcast_object() with these arguments, as a function of the object."""
    return lambda obj: broadcast_object(obj, root_rank, session, name, process_set)


def allgather_object(obj, session=None, name=None, process_set=global_process_set):
    """Returns the objects of all ranks, in rank order. `session` is not used."""
    del session
    return arrays.allgather_object(obj, name, process_set)
