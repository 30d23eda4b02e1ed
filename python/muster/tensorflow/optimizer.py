"""DistributedOptimizer: Keras' optimizers and those of tf.compat.v1, with the gradients of all ranks."""

import tensorflow as tf

from muster.engine import Average
from muster.tensorflow.compression import Compression
from muster.tensorflow.gradients import Reducer
from muster.tensorflow.operations import unconverted
from muster.world import global_process_set


class _Aggregation:
    """Adds up the gradients of several backward passes. Not thread-safe."""

    def __init__(self, passes, is_average):
        self._passes = passes
        self._is_average = is_average
        self._sums = None
        self._count = None

    def step(self, optimizer, gradients, variables, apply):
        """Calls apply(sums) in every n-th step, and nothing in the others."""
        if self._sums is None:
            with tf.init_scope():
                _build(optimizer, variables)
                self._sums = [None if gradient is None else tf.Variable(tf.zeros(variable.shape, gradient.dtype),
                                                                        trainable=False)
                              for gradient, variable in zip(gradients, variables)]
                self._count = tf.Variable(0, trainable=False, dtype=tf.int64)
        for total, gradient in zip(self._sums, gradients):
            if total is not None:
                total.assign_add(tf.convert_to_tensor(gradient))
        # tf.function keeps its operations in order, but not a branch that takes variables among them: these two, which
        # take none, hold its place.
        with tf.control_dependencies([tf.timestamp()]):
            is_due = tf.cond(self._count.assign_add(1) >= self._passes, lambda: self._apply(apply),
                             lambda: tf.constant(False))
        with tf.control_dependencies([is_due]):
            tf.timestamp()
        return is_due

    def _apply(self, apply):
        scale = 1.0 / self._passes if self._is_average else 1.0
        apply([None if total is None else total * tf.cast(scale, total.dtype) for total in self._sums])
        for total in self._sums:
            if total is not None:
                total.assign(tf.zeros_like(total))
        self._count.assign(0)
        return tf.constant(True)


def _build(optimizer, variables):
    """Makes the optimizer's own variables, which cannot be made in a branch of a graph."""
    if hasattr(optimizer, "build"):
        if not getattr(optimizer, "built", False):
            optimizer.build(variables)
    else:
        optimizer._create_all_weights(variables)


class _Distributed:
    """What the classes made by DistributedOptimizer() add to the user's optimizer."""

    _reducer = None
    _aggregation = None

    def register_local_var(self, variable):
        """The gradients of this variable stay this rank's own, divided by the number of ranks."""
        self._reducer.register_local(variable)

    def _apply_reduced(self, gradients, variables, apply):
        """apply(gradients of all ranks), when as many backward passes as asked for have been made."""
        def reduced(sums):
            return apply(self._reducer.reduce(sums, variables))

        if self._aggregation is None:
            return reduced(gradients)
        return self._aggregation.step(self, gradients, variables, reduced)


class _DistributedKeras2(_Distributed):
    """Keras 2, also its older optimizers."""

    @unconverted
    def apply_gradients(self, grads_and_vars, *args, **kwargs):
        """That of the user's optimizer, with the gradients of all ranks."""
        gradients, variables = map(list, zip(*grads_and_vars))
        base = super().apply_gradients
        return self._apply_reduced(gradients, variables, lambda made: base(zip(made, variables), *args, **kwargs))


class _DistributedKeras3(_Distributed):
    """Keras 3, whose apply_gradients() calls apply()."""

    @unconverted
    def apply(self, grads, trainable_variables=None):
        """That of the user's optimizer, with the gradients of all ranks."""
        variables = list(self._trainable_variables if trainable_variables is None else trainable_variables)
        base = super().apply
        return self._apply_reduced(list(grads), variables, lambda made: base(made, trainable_variables))


class _DistributedV1(_Distributed):
    """tf.compat.v1."""

    @unconverted
    def compute_gradients(self, *args, **kwargs):
        """(gradient of all ranks, variable) for every variable."""
        gradients, variables = map(list, zip(*super().compute_gradients(*args, **kwargs)))
        return list(zip(self._reducer.reduce(gradients, variables), variables))


def _mixin_of(optimizer):
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        return _DistributedV1
    if hasattr(optimizer, "apply_gradients"):
        return _DistributedKeras3 if hasattr(optimizer, "apply") else _DistributedKeras2
    raise ValueError(f"{type(optimizer).__name__} is neither an optimizer of Keras nor one of tf.compat.v1.train")


def distribute(optimizer, backward_passes_per_step, average_aggregated_gradients, **options):
    """DistributedOptimizer() of all modules; `options` are those of Reducer()."""
    mixin = _mixin_of(optimizer)
    if isinstance(optimizer, _Distributed):
        raise ValueError("the optimizer is a DistributedOptimizer already")
    if backward_passes_per_step < 1 or (backward_passes_per_step > 1 and mixin is _DistributedV1):
        raise ValueError("backward_passes_per_step must be at least 1, and 1 with optimizers of tf.compat.v1")
    base = optimizer.__class__
    members = {"__doc__": base.__doc__, "__module__": base.__module__, "_reducer": Reducer("optimizer", **options)}
    if backward_passes_per_step > 1:
        members["_aggregation"] = _Aggregation(backward_passes_per_step, average_aggregated_gradients)
    optimizer.__class__ = type(base.__name__, (mixin, base), members)
    return optimizer


def DistributedOptimizer(optimizer, name=None, use_locking=False, device_dense="", device_sparse="",
                         compression=Compression.none, sparse_as_dense=False, backward_passes_per_step=1, op=Average,
                         gradient_predivide_factor=1.0, average_aggregated_gradients=False, num_groups=0, groups=None,
                         process_set=global_process_set, scale_local_gradients=True):
    """The optimizer, with its state, which from now on follows the gradients of all ranks: its class becomes a subclass
    of what it was. Keras' optimizers reduce where gradients are applied, those of tf.compat.v1 where they are computed.

    backward_passes_per_step: gradients are reduced and applied in every n-th step only, and add up until then, or are
        averaged with average_aggregated_gradients.
    op, gradient_predivide_factor, groups, num_groups, sparse_as_dense, process_set, scale_local_gradients: as for
        DistributedGradientTape(); register_local_var() instead of register_local_source().
    The name, locking and devices are not used. ValueError: a setting, no such optimizer, a process set that was not
    added, or init() was not called."""
    del name, use_locking, device_dense, device_sparse
    return distribute(optimizer, backward_passes_per_step, average_aggregated_gradients, compression=compression,
                      sparse_as_dense=sparse_as_dense, op=op, gradient_predivide_factor=gradient_predivide_factor,
                      num_groups=num_groups, groups=groups, process_set=process_set,
                      scale_local_gradients=scale_local_gradients)
