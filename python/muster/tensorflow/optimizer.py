"""DistributedOptimizer: makes optimizers of Keras and of tf.compat.v1 use the gradients of all ranks."""

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
        with tf.init_scope():
            # the number of passes since gradients were last reduced
            self.counter = tf.Variable(0, trainable=False, dtype=tf.int64)

    def compute(self, reducer, gradients, variables):
        """Adds the gradients of this pass. In every n-th pass it returns the gradients of n passes, reduced over all
        ranks. In the other passes it returns this rank's sums so far."""
        if self._sums is None:
            with tf.init_scope():
                self._sums = [None if gradient is None else tf.Variable(tf.zeros(variable.shape, gradient.dtype),
                                                                        trainable=False)
                              for gradient, variable in zip(gradients, variables)]
        used = [i for i, total in enumerate(self._sums) if total is not None]
        for i in used:
            self._sums[i].assign_add(tf.convert_to_tensor(gradients[i]))

        def reduced():
            made = self._reduced(reducer, variables)
            return [tf.convert_to_tensor(made[i]) for i in used]

        def sums():
            return [self._sums[i].read_value() for i in used]

        made = _cond_in_place(self.counter.assign_add(1) >= self._passes, reduced, sums)
        result = [None] * len(gradients)
        for i, gradient in zip(used, made):
            result[i] = gradient
        return result

    def _reduced(self, reducer, variables):
        scale = 1.0 / self._passes if self._is_average else 1.0
        made = reducer.reduce([None if total is None else total * tf.cast(scale, total.dtype) for total in self._sums],
                              variables)
        for total in self._sums:
            if total is not None:
                total.assign(tf.zeros_like(total))
        self.counter.assign(0)
        return made

    def apply(self, optimizer, variables, apply):
        """Calls apply() after a pass whose compute() has reduced the gradients. After other passes it only counts the
        step."""
        with tf.init_scope():
            _build(optimizer, variables)

        def applied():
            apply()
            return tf.constant(True)

        def counted():
            optimizer.iterations.assign_add(1)
            return tf.constant(False)

        return _cond_in_place(tf.equal(self.counter, 0), applied, counted)


def _cond_in_place(condition, if_true, if_false):
    """Does tf.cond() at a fixed place in a tf.function. A tf.function keeps its operations in order, except a branch
    that uses variables. So this function puts an operation without variables before and after the branch."""
    with tf.control_dependencies([tf.timestamp()]):
        made = tf.cond(condition, if_true, if_false)
    with tf.control_dependencies(tf.nest.flatten(made)):
        tf.timestamp()
    return made


def _build(optimizer, variables):
    """Creates the optimizer's own variables, because a branch of a graph cannot create them."""
    if hasattr(optimizer, "build"):
        if not getattr(optimizer, "built", False):
            optimizer.build(variables)
    else:
        optimizer._create_all_weights(variables)


class _Distributed:
    """The methods that DistributedOptimizer() adds to the user's optimizer."""

    _reducer = None
    _agg_helper = None  # an _Aggregation; the name is Horovod's

    def register_local_var(self, variable):
        """Excludes the gradients of this variable from the reduction. They are divided by the number of ranks."""
        self._reducer.register_local(variable)

    def _reduced(self, gradients, variables):
        """Returns the gradients, reduced over all ranks. With several backward passes per step it reduces them only
        after the last pass."""
        if self._agg_helper is None:
            return self._reducer.reduce(gradients, variables)
        return self._agg_helper.compute(self._reducer, gradients, variables)

    def _applied(self, variables, apply):
        """Calls apply() if _reduced() has returned reduced gradients."""
        return apply() if self._agg_helper is None else self._agg_helper.apply(self, variables, apply)


class _DistributedKeras2(_Distributed):
    """For Keras 2, including its older optimizers."""

    def compute_gradients(self, loss, var_list, tape=None):
        """Returns (gradient of all ranks, variable) for every variable."""
        return self._compute_gradients(loss, var_list, None, tape)

    @unconverted
    def _compute_gradients(self, loss, var_list, grad_loss=None, tape=None):
        base = super()
        if hasattr(base, "_compute_gradients"):  # an older optimizer
            computed = base._compute_gradients(loss, var_list, grad_loss, tape=tape)
        else:
            computed = base.compute_gradients(loss, var_list, tape=tape)
        gradients, variables = map(list, zip(*computed))
        self._reducer.has_computed = True
        return list(zip(self._reduced(gradients, variables), variables))

    @unconverted
    def apply_gradients(self, grads_and_vars, *args, **kwargs):
        """Does apply_gradients() of the user's optimizer with the gradients of all ranks. If compute_gradients() was
        ever called (fit() does so), the gradients are already reduced. Otherwise this method reduces them."""
        gradients, variables = map(list, zip(*grads_and_vars))
        base = super().apply_gradients
        if not self._reducer.has_computed:
            gradients = self._reduced(gradients, variables)
        return self._applied(variables, lambda: base(list(zip(gradients, variables)), *args, **kwargs))


class _DistributedKeras3(_Distributed):
    """For Keras 3, whose apply_gradients() calls apply()."""

    @unconverted
    def apply(self, grads, trainable_variables=None):
        """Does apply() of the user's optimizer with the gradients of all ranks."""
        variables = list(self._trainable_variables if trainable_variables is None else trainable_variables)
        base = super().apply
        gradients = self._reduced(list(grads), variables)
        return self._applied(variables, lambda: base(gradients, trainable_variables))


class _DistributedV1(_Distributed):
    """For optimizers of tf.compat.v1."""

    @property
    def _optimizer(self):
        """Returns this object. In Horovod the user's optimizer has this name."""
        return self

    @unconverted
    def compute_gradients(self, *args, **kwargs):
        """Returns (gradient of all ranks, variable) for every variable."""
        gradients, variables = map(list, zip(*super().compute_gradients(*args, **kwargs)))
        return list(zip(self._reducer.reduce(gradients, variables), variables))


def _mixin_of(optimizer):
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        return _DistributedV1
    if hasattr(optimizer, "apply_gradients"):
        return _DistributedKeras3 if hasattr(optimizer, "apply") else _DistributedKeras2
    raise ValueError(f"{type(optimizer).__name__} is neither an optimizer of Keras nor one of tf.compat.v1.train")


def distribute(optimizer, name, backward_passes_per_step, average_aggregated_gradients, **options):
    """Does the work of DistributedOptimizer() for all modules. `options` are those of Reducer()."""
    mixin = _mixin_of(optimizer)
    if isinstance(optimizer, _Distributed):
        raise ValueError("the optimizer is already a DistributedOptimizer")
    if backward_passes_per_step < 1 or (backward_passes_per_step > 1 and mixin is _DistributedV1):
        raise ValueError("backward_passes_per_step must be at least 1, and 1 with optimizers of tf.compat.v1")
    base = optimizer.__class__
    kind = f"optimizer.{name}" if name else "optimizer"
    members = {"__doc__": base.__doc__, "__module__": base.__module__, "_reducer": Reducer(kind, **options)}
    if backward_passes_per_step > 1:
        members["_agg_helper"] = _Aggregation(backward_passes_per_step, average_aggregated_gradients)
    optimizer.__class__ = type(base.__name__, (mixin, base), members)
    return optimizer


def DistributedOptimizer(optimizer, name=None, use_locking=False, device_dense="", device_sparse="",
                         compression=Compression.none, sparse_as_dense=False, backward_passes_per_step=1, op=Average,
                         gradient_predivide_factor=1.0, average_aggregated_gradients=False, num_groups=0, groups=None,
                         process_set=global_process_set, scale_local_gradients=True):
    """Returns `optimizer` itself, with its state. From now on it uses the gradients of all ranks: its class becomes a
    subclass of its former class. Optimizers of Keras 2 and of tf.compat.v1 reduce in compute_gradients(), which fit()
    and minimize() call. If gradients come from a tape instead, Keras' optimizers reduce them before they apply them.

    name: the name of the optimizer's reductions. Two optimizers that reduce at the same time, in two threads, need
    different names.
    backward_passes_per_step: gradients add up, and are reduced and applied only in every n-th step. With
    average_aggregated_gradients they are averaged instead. The optimizer's `iterations` counts all steps.
    op, gradient_predivide_factor, groups, num_groups, sparse_as_dense, process_set, scale_local_gradients: as for
    DistributedGradientTape(), but with register_local_var() instead of register_local_source().
    Locking and devices are not used. ValueError: a wrong setting, an unsupported optimizer, a process set that was not
    added, or init() was not called."""
    del use_locking, device_dense, device_sparse
    return distribute(optimizer, name, backward_passes_per_step, average_aggregated_gradients, compression=compression,
                      sparse_as_dense=sparse_as_dense, op=op, gradient_predivide_factor=gradient_predivide_factor,
                      num_groups=num_groups, groups=groups, process_set=process_set,
                      scale_local_gradients=scale_local_gradients)
