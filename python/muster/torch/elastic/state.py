"""The state of a training with PyTorch. Models, optimizers and samplers have handlers. Other objects are pickled."""

import copy

import torch

from muster.elastic import ObjectState
from muster.torch.elastic.sampler import ElasticSampler
from muster.torch.functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters


class StateHandler:
    """Saves, restores and synchronizes one object, `value`."""

    def __init__(self, value):
        self.value = value
        self.save()

    def save(self):
        """Keeps the object's state in memory."""
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self):
        """Restores the state that was saved last."""
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self):
        """Makes the state the same on all ranks, and saves it."""
        raise NotImplementedError(f"{type(self).__name__} needs sync()")

    def set_value(self, value):
        """Handles another object from now on."""
        self.value = value
        self.save()


class ModelStateHandler(StateHandler):
    """The handler of a torch.nn.Module. All ranks get the state of rank 0."""

    def sync(self):
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class OptimizerStateHandler(StateHandler):
    """The handler of a torch.optim.Optimizer. All ranks get the state of rank 0."""

    def sync(self):
        broadcast_optimizer_state(self.value, root_rank=0)
        self.save()


class LRSchedulerStateHandler(StateHandler):
    """The handler of a scheduler of torch.optim.lr_scheduler. All ranks get the state of rank 0."""

    def sync(self):
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), 0, name="elastic.scheduler"))
        self.save()


class SamplerStateHandler(StateHandler):
    """The handler of an ElasticSampler. All ranks get the state of rank 0, which counts the samples of all ranks."""

    def sync(self):
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), 0, name="elastic.sampler"))
        self.save()


_SCHEDULER = getattr(torch.optim.lr_scheduler, "LRScheduler", torch.optim.lr_scheduler._LRScheduler)
_registry = [(torch.nn.Module, ModelStateHandler), (torch.optim.Optimizer, OptimizerStateHandler),
             (_SCHEDULER, LRSchedulerStateHandler), (ElasticSampler, SamplerStateHandler)]


def get_handler_registry():
    """Returns the list of (class, handler class). TorchState uses the first entry that matches an object."""
    return _registry


def set_handler_registry(registry):
    """Replaces the list from now on."""
    global _registry
    _registry = registry


def _handler_of(value):
    for kind, handler in _registry:
        if isinstance(value, kind):
            return handler(value)
    return None


class TorchState(ObjectState):
    """A state whose arguments become attributes: TorchState(model=model, optimizer=optimizer, epoch=0, batch=0). If a
    value has a handler, the handler saves and synchronizes it. All other values must be objects that can be pickled."""

    def __init__(self, model=None, optimizer=None, **kwargs):
        self._handlers = {}
        given = {"model": model, "optimizer": optimizer}
        objects = {}
        for name, value in {**{name: v for name, v in given.items() if v is not None}, **kwargs}.items():
            handler = _handler_of(value)
            if handler is None:
                objects[name] = value
            else:
                self._handlers[name] = handler
        super().__init__(**objects)

    def __getattr__(self, name):
        handlers = self.__dict__.get("_handlers", {})
        if name not in handlers:
            raise AttributeError(f"this TorchState has no '{name}'")
        return handlers[name].value

    def __setattr__(self, name, value):
        if name in self.__dict__.get("_handlers", {}):
            self._handlers[name].set_value(value)
        else:
            super().__setattr__(name, value)

    def reset(self):
        """Gives the samplers to the present ranks. They may have no other chance: run() need not call sync()."""
        for handler in self._handlers.values():
            if isinstance(handler, SamplerStateHandler):
                handler.value.reset()

    def save(self):
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self):
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self):
        for handler in self._handlers.values():
            handler.sync()
        super().sync()
