"""horovod.tensorflow.util: what scripts take from it."""

import functools

import tensorflow as tf


def _executing_eagerly():
    """Whether operations run as they are called: not in a tf.function, and not in a graph of TensorFlow 1."""
    return tf.executing_eagerly()


def _make_subgraph(function):
    """`function` as a tf.function."""
    return tf.function(function)


def _cache(function):
    """`function` with its results kept, those of eager calls and of graphs apart. Its arguments can be hashed."""
    kept = {}

    @functools.wraps(function)
    def call(*arguments):
        key = (arguments, _executing_eagerly())
        if key not in kept:
            kept[key] = function(*arguments)
        return kept[key]

    return call


def vars_to_refs(variables):
    """What stands for a variable, or for a list of them, where it has to be hashed."""
    return tuple(map(vars_to_refs, variables)) if isinstance(variables, list) else variables.ref()


def refs_to_vars(refs):
    """The variable, or the list of them, that vars_to_refs() has made `refs` of."""
    return list(map(refs_to_vars, refs)) if isinstance(refs, tuple) else refs.deref()
