"""DistributedTrainer for Gluon, DistributedOptimizer for modules, and broadcast_parameters(), which gives all ranks the
parameters of one rank."""

import types

import mxnet as mx
from mxnet.gluon.parameter import DeferredInitializationError

from muster import numpy as arrays
from muster import world
from muster.engine import Average
from muster.mxnet.compression import Compression
from muster.mxnet.operations import reduce_all_
from muster.util import split_list
from muster.world import global_process_set


def _reduce(gradients, names, options):
    """Averages gradients over all ranks of the process set, in place. options = (factor, groups, process set,
    compression)."""
    factor, groups, process_set, compression = options
    if not world.takes_part(process_set) or not gradients or process_set.size() == 1:
        return
    indices = list(range(len(gradients)))
    units = [unit for unit in split_list(indices, groups) if unit] if groups else [[i] for i in indices]
    reduce_all_(gradients, names, Average, 1.0 / factor, factor, process_set, units, compression)


class DistributedTrainer(mx.gluon.Trainer):
    """Gluon's Trainer whose step() uses the average of all ranks' gradients. The batch size of step() is one rank's.

    gradient_predivide_factor: gradients are divided by this factor before the sum, and by size / factor after the sum.
    num_groups: gradients are reduced in this many units. prefix: the beginning of the gradients' names. Two trainers
    that step at the same time need different prefixes. process_set: ranks outside it take their own steps.
    ValueError: `optimizer` is a DistributedOptimizer, the process set was not added, or init() was not called."""

    def __init__(self, params, optimizer, optimizer_params=None, compression=Compression.none,
                 gradient_predivide_factor=1.0, prefix=None, num_groups=0, process_set=global_process_set):
        world.takes_part(process_set)
        if isinstance(optimizer, DistributedOptimizer):
            raise ValueError("DistributedTrainer needs an optimizer of MXNet, not a DistributedOptimizer: the trainer "
                             "itself reduces the gradients")
        super().__init__(params, optimizer, optimizer_params, kvstore=None)
        self._name = f"{prefix or ''}gradient"
        self._options = gradient_predivide_factor, num_groups, process_set, compression

    def _allreduce_grads(self):
        gradients = [parameter.list_grad()[0] for parameter in self._params if parameter.grad_req != "null"]
        _reduce(gradients, [f"{self._name}.{i}" for i in range(len(gradients))], self._options)


class DistributedOptimizer(mx.optimizer.Optimizer):
    """Averages the gradients over all ranks of `process_set`, then acts as `optimizer`. On ranks outside the set it
    only acts as `optimizer`. ValueError: the process set was not added, or init() was not called."""

    def __init__(self, optimizer, gradient_predivide_factor=1.0, num_groups=0, process_set=global_process_set):
        world.takes_part(process_set)
        self._optimizer = optimizer
        self._options = gradient_predivide_factor, num_groups, process_set, Compression.none

    def __getattr__(self, name):
        if name == "_optimizer":
            raise AttributeError(name)
        return getattr(self._optimizer, name)

    def create_state(self, index, weight):
        """Calls this method of the wrapped optimizer."""
        return self._optimizer.create_state(index, weight)

    def create_state_multi_precision(self, index, weight):
        """Calls this method of the wrapped optimizer."""
        return self._optimizer.create_state_multi_precision(index, weight)

    def _reduced(self, index, grad):
        gradients = grad if isinstance(grad, (list, tuple)) else [grad]
        numbers = index if isinstance(index, (list, tuple)) else [index]
        _reduce(list(gradients), [f"optimizer.{number}" for number in numbers], self._options)

    def update(self, index, weight, grad, state):
        """Calls this method of the wrapped optimizer with the gradients of all ranks."""
        self._reduced(index, grad)
        self._optimizer.update(index, weight, grad, state)

    def update_multi_precision(self, index, weight, grad, state):
        """Calls this method of the wrapped optimizer with the gradients of all ranks."""
        self._reduced(index, grad)
        self._optimizer.update_multi_precision(index, weight, grad, state)

    def set_learning_rate(self, lr):
        """Calls this method of the wrapped optimizer."""
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult):
        """Calls this method of the wrapped optimizer."""
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult):
        """Calls this method of the wrapped optimizer."""
        self._optimizer.set_wd_mult(args_wd_mult)


def broadcast_parameters(params, root_rank=0, prefix=None):
    """Gives all ranks the values of `root_rank`, in place. `params` is a dict of arrays (module.get_params()) or
    Gluon's parameters (net.collect_params()). If a parameter's shape is unknown, it is broadcast when it is
    initialized. ValueError: `params` is neither of the two."""
    if not hasattr(params, "items"):
        raise ValueError(f"broadcast_parameters needs a dict of arrays or of parameters, not {type(params).__name__}")
    begun = []
    for name, value in sorted(params.items()):
        name = f"{prefix or ''}parameter.{name}"
        tensors = [value]
        if isinstance(value, mx.gluon.Parameter):
            try:
                tensors = value.list_data()
            except DeferredInitializationError:
                _broadcast_once_initialized(value, root_rank, name)
                continue
        begun.append((tensors, arrays.broadcast_async(tensors[0].asnumpy(), root_rank, name)))
    for tensors, handle in begun:
        _set(tensors, arrays.synchronize(handle))


def _set(tensors, array):
    for tensor in tensors:
        tensor[:] = array


def _broadcast_once_initialized(parameter, root_rank, name):
    initialize = parameter._init_impl

    def and_broadcast(self, *args, **kwargs):
        initialize(*args, **kwargs)
        del self._init_impl
        _set(self.list_data(), arrays.broadcast(self.list_data()[0].asnumpy(), root_rank, name))

    parameter._init_impl = types.MethodType(and_broadcast, parameter)
