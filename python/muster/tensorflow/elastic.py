"""Horovod's elastic API for TensorFlow. muster.elastic explains what it does in a job with a fixed number of ranks."""

from muster.elastic import ObjectState, run
from muster.tensorflow.functions import broadcast_variables


class TensorFlowState(ObjectState):
    """Keeps variables, and objects that can be pickled as attributes: TensorFlowState(variables=..., epoch=0).
    `session` is not used."""

    def __init__(self, variables=None, session=None, **kwargs):
        del session
        self._given = variables
        self._values = []
        super().__init__(**kwargs)
        self.save()

    def _variables(self):
        return list(self._given or [])

    def save(self):
        self._values = [variable.numpy().copy() for variable in self._variables()]
        super().save()

    def restore(self):
        for variable, value in zip(self._variables(), self._values):
            variable.assign(value)
        super().restore()

    def sync(self):
        broadcast_variables(self._variables(), root_rank=0)
        super().sync()
        self.save()


class TensorFlowKerasState(TensorFlowState):
    """Keeps a model with its optimizer, and objects that can be pickled as attributes: TensorFlowKerasState(model,
    batch=0). `backend` is not used. All ranks must have the same variables. So either all ranks have made a step, or
    no rank has."""

    def __init__(self, model, optimizer=None, backend=None, **kwargs):
        del backend
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
