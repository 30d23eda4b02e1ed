"""horovod.tensorflow.util: the functions that scripts import from it."""

import functools

import tensorflow as tf


def _executing_eagerly():
    """Returns True if operations run when they are called. In a tf.function or a graph of TensorFlow 1 they do not."""
    return tf.executing_eagerly()


def _make_subgraph(function):
    """Returns `function` as a tf.function."""
    return tf.function(function)


def _cache(function):
    """Returns `function` with a cache of its results. The cache keeps results of eager calls and of graphs apart. The
    arguments must be hashable."""
    kept = {}

    @functools.wraps(function)
    def call(*arguments):
        key = (arguments, _executing_eagerly())
        if key not in kept:
            kept[key] = function(*arguments)
        return kept[key]

    return call


def vars_to_refs(variables):
    """Returns a hashable reference to a variable, or to a list of variables."""
    return tuple(map(vars_to_refs, variables)) if isinstance(variables, list) else variables.ref()


def refs_to_vars(refs):
    """Returns the variable, or the list of variables, from which vars_to_refs() made `refs`."""
    return list(map(refs_to_vars, refs)) if isinstance(refs, tuple) else refs.deref()
