"""Reduces gradients over all ranks. DistributedGradientTape and DistributedOptimizer share it."""

import tensorflow as tf

from muster import next_world, world
from muster.engine import Average
from muster.tensorflow import graph
from muster.tensorflow.compression import Compression
from muster.tensorflow.operations import allreduce, reduce_all, unconverted
from muster.util import split_list
from muster.world import global_process_set


def _place():
    """Returns the part of the operations' names that identifies the place of the call. Empty for an eager call.

    Eager reductions run one after the other, so they can share a name. Reductions of different functions could share
    one, too, but different names keep their shapes apart in the engine's cache. Reductions of one graph are numbered,
    because in a graph of TensorFlow 1 several may run at the same time."""
    return "" if tf.executing_eagerly() else f".{graph.place()}"


class Reducer:
    """Reduces the gradients of one tape or optimizer over all ranks. Not thread-safe."""

    def __init__(self, kind, compression=Compression.none, sparse_as_dense=False, op=Average,
                 gradient_predivide_factor=1.0, groups=None, num_groups=0, process_set=global_process_set,
                 scale_local_gradients=True, local_layers=None):
        if gradient_predivide_factor != 1.0 and op != Average:
            raise ValueError("gradient_predivide_factor not supported with op != Average")
        world.takes_part(process_set)  # raises ValueError if the set was not added, or init() was not called
        self._kind = kind
        self._compression = compression
        self._sparse_as_dense = sparse_as_dense
        self._op = op
        self._factor = gradient_predivide_factor
        self._groups = groups or num_groups or None
        self._process_set = process_set
        self._scales_local = scale_local_gradients
        self._local_layers = [] if local_layers is None else \
            list(local_layers) if isinstance(local_layers, (list, tuple)) else [local_layers]
        self._local = []
        self.has_computed = False  # True once an optimizer has reduced gradients in compute_gradients()

    def register_local(self, variable):
        """Excludes the gradients of this variable from the reduction."""
        self._local.append(variable)

    def local_ids(self):
        """Returns the id()s of the variables whose gradients are not reduced."""
        return {id(variable) for variable in self._local} | {
            id(variable) for layer in self._local_layers for variable in layer.trainable_weights}

    def reduce(self, gradients, variables):
        """Returns the gradients, reduced over all ranks of the process set, in the same order. Some gradients may be
        None. On ranks outside the set it returns the gradients unchanged."""
        if not world.takes_part(self._process_set):
            return list(gradients)
        local = self.local_ids()
        size = self._process_set.size()
        name = self._kind + _place()
        made = list(gradients)
        dense = []
        for i, (gradient, variable) in enumerate(zip(gradients, variables)):
            if gradient is None:
                continue
            if id(variable) in local:
                made[i] = _scaled(gradient, 1.0 / size) if self._scales_local else gradient
            elif isinstance(gradient, tf.IndexedSlices) and not self._sparse_as_dense:
                made[i] = allreduce(gradient, op=self._op, name=f"{name}.{i}", process_set=self._process_set)
            else:
                dense.append(i)
        # A graph that is made in an elastic world of one rank also runs in larger ones.
        if dense and (size > 1 or next_world.is_elastic()):
            self._reduce_dense(name, made, dense, variables)
        return made

    def _reduce_dense(self, name, made, dense, variables):
        sent, contexts = zip(*[self._compression.compress(tf.convert_to_tensor(made[i])) for i in dense])
        names = [f"{name}.{i}" for i in dense]
        reduced = reduce_all(list(sent), names, self._op, 1.0 / self._factor, self._factor, self._process_set,
                             self._groups_of([variables[i] for i in dense]))
        for i, tensor, ctx in zip(dense, reduced, contexts):
            made[i] = self._compression.decompress(tensor, ctx)

    def _groups_of(self, variables):
        """Returns lists of indices into `variables`. The gradients of each list are reduced together."""
        indices = list(range(len(variables)))
        if self._groups is None:
            return [[i] for i in indices]
        if isinstance(self._groups, int):
            return [group for group in split_list(indices, self._groups) if group]
        number_of = {id(variable): number for number, group in enumerate(self._groups) for variable in group}
        groups = {}
        for i in indices:
            groups.setdefault(number_of.get(id(variables[i]), ("alone", i)), []).append(i)
        return list(groups.values())


def _scaled(gradient, factor):
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(_scaled(gradient.values, factor), gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(factor, gradient.dtype)


class _DistributedTape:
    """The methods that DistributedGradientTape() adds to the user's tape."""

    _reducer = None

    def register_local_source(self, source):
        """Excludes the gradients of this variable from the reduction. They are divided by the number of ranks."""
        self._reducer.register_local(source)

    @unconverted
    def gradient(self, target, sources, *args, use_generic_names=False, **kwargs):
        """Returns the gradients of the user's tape, reduced over all ranks. `use_generic_names` is not used, because
        the names of reductions never depend on the names of variables."""
        del use_generic_names
        found = super().gradient(target, sources, *args, **kwargs)
        reduced = self._reducer.reduce(tf.nest.flatten(found), tf.nest.flatten(sources))
        return tf.nest.pack_sequence_as(found, reduced)

    def get_local_and_global_gradients(self, target, sources, *args, **kwargs):
        """Returns two lists of (source, gradient). The first has the sources whose gradients are not reduced, the
        second has all others."""
        pairs = list(zip(sources, self.gradient(target, sources, *args, **kwargs)))
        local = self._reducer.local_ids()
        return [pair for pair in pairs if id(pair[0]) in local], [pair for pair in pairs if id(pair[0]) not in local]


def _distributed(tape, name, **options):
    base = tape.__class__
    kind = f"tape.{name}" if name else "tape"
    made = type(base.__name__, (_DistributedTape, base), {"_reducer": Reducer(kind, **options)})
    tape.__class__ = made
    return tape


def DistributedGradientTape(gradtape, device_dense="", device_sparse="", compression=Compression.none,
                            sparse_as_dense=False, op=Average, gradient_predivide_factor=1.0, num_groups=0, groups=None,
                            process_set=global_process_set, scale_local_gradients=True, name=None):
    """Returns `gradtape` itself. From now on its gradient() returns gradients that are reduced over all ranks.

    op: Average, Sum, Adasum, Min, Max, Product.
    gradient_predivide_factor: gradients are divided by this factor before the sum, and by size / factor after the sum.
    groups: gradients that are reduced as one unit: a number of groups, or lists of variables. num_groups is its older
    name.
    sparse_as_dense: tf.IndexedSlices are made dense and reduced. Otherwise they are gathered.
    process_set: on ranks outside it gradients stay unchanged.
    scale_local_gradients: gradients of register_local_source() are divided by the number of ranks.
    name: the name of the tape's reductions. Horovod has no such argument. Two tapes that reduce at the same time, in
    two threads, need different names.
    The devices are not used. ValueError: a wrong setting, a process set that was not added, or init() was not
    called."""
    del device_dense, device_sparse
    return _distributed(gradtape, name, compression=compression, sparse_as_dense=sparse_as_dense, op=op,
                        gradient_predivide_factor=gradient_predivide_factor, num_groups=num_groups, groups=groups,
                        process_set=process_set, scale_local_gradients=scale_local_gradients)


def PartialDistributedGradientTape(gradtape, device_dense="", device_sparse="", compression=Compression.none,
                                   sparse_as_dense=False, op=Average, gradient_predivide_factor=1.0, num_groups=0,
                                   groups=None, process_set=global_process_set, local_layers=None,
                                   scale_local_gradients=True, name=None):
    """Does DistributedGradientTape(), but does not reduce the gradients of `local_layers` (one layer or several)."""
    del device_dense, device_sparse
    return _distributed(gradtape, name, compression=compression, sparse_as_dense=sparse_as_dense, op=op,
                        gradient_predivide_factor=gradient_predivide_factor, num_groups=num_groups, groups=groups,
                        process_set=process_set, scale_local_gradients=scale_local_gradients,
                        local_layers=local_layers)
