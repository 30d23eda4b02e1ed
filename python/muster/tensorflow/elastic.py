"""Horovod's elastic API for TensorFlow. muster.elastic explains what it does."""

import tensorflow as tf

from muster import elastic
from muster.elastic import ObjectState, run_fn
from muster.tensorflow.errors import as_horovods
from muster.tensorflow.functions import broadcast_variables


def run(func):
    """Does the same as muster.elastic.run(), for functions that fail with errors of TensorFlow."""
    return elastic.run_translated(func, elastic.reset_world, as_horovods)


class TensorFlowState(ObjectState):
    """Keeps variables, and objects that can be pickled as attributes: TensorFlowState(variables=..., epoch=0).
    Without `variables` it keeps all global variables of TensorFlow 1. `session` is for graphs of TensorFlow 1; if it is
    None, the default session counts."""

    def __init__(self, variables=None, session=None, **kwargs):
        if variables is None and not tf.executing_eagerly():
            variables = tf.compat.v1.global_variables()
        self._given = variables
        self._values = []
        self._session = session
        self._broadcast = None  # an operation of a graph; one for all synchronizations
        super().__init__(**kwargs)
        self.save()

    def _variables(self):
        return list(self._given or [])

    def _graph_session(self):
        if tf.executing_eagerly():
            return None
        return self._session or tf.compat.v1.get_default_session()

    def save(self):
        session = self._graph_session()
        if session is None:
            self._values = [variable.numpy().copy() for variable in self._variables()]
        else:
            self._values = session.run(self._variables())
        super().save()

    def restore(self):
        session = self._graph_session()
        for variable, value in zip(self._variables(), self._values):
            if session is None:
                variable.assign(value)
            else:
                variable.load(value, session)
        super().restore()

    def sync(self):
        session = self._graph_session()
        if session is None:
            broadcast_variables(self._variables(), root_rank=0)
        else:
            if self._broadcast is None:
                self._broadcast = broadcast_variables(self._variables(), root_rank=0)
            session.run(self._broadcast)
        super().sync()
        self.save()


class TensorFlowKerasState(TensorFlowState):
    """Keeps a model with its optimizer, and objects that can be pickled as attributes: TensorFlowKerasState(model,
    batch=0). `backend` is not used. All ranks must have the same variables. So either all ranks have made a step, or
    no rank has."""

    def __init__(self, model, optimizer=None, backend=None, **kwargs):
        del backend
        if not getattr(model, "built", True):
            raise ValueError("Model must be built first. Run `model.build(input_shape)`.")
        self.model = model
        self.optimizer = optimizer if optimizer is not None else getattr(model, "optimizer", None)
        super().__init__(**kwargs)

    def _variables(self):
        return list(self.model.variables) + variables_of(self.optimizer)


def variables_of(optimizer):
    """Returns the optimizer's own variables. In Keras 3 they are a list. In older optimizers a function returns
    them."""
    if optimizer is None:
        return []
    found = optimizer.variables
    return list(found() if callable(found) else found)
