"""Operations in graphs: the names by which ranks match them, and the threads that wait for them.

A tf.function of TensorFlow 2 runs an operation as a tf.numpy_function, which blocks a thread of TensorFlow until the
operation is done. TensorFlow runs such functions in the order in which it has traced them, and this order is the same
on all ranks. So ranks never wait for each other in different operations. An operation's name contains its number in the
tf.function.

In a graph of TensorFlow 1 operations have no order, and a session may run only some of them. An operation has the name
of its node in the graph. A waiting operation must not occupy a thread of the session, because other operations need
that thread. So the operation's function is the map of a dataset with one element, and TensorFlow computes that element
on a separate thread.
"""

import re
import weakref

import tensorflow as tf

from muster.tensorflow.checks import checked

_counts = weakref.WeakKeyDictionary()  # a graph -> {name: how many of its operations requested this name}


def _outermost():
    """Returns the default graph. If it is a branch or the body of a loop, returns the graph around it."""
    graph = tf.compat.v1.get_default_graph()
    while any(base.__name__ == "ControlFlowFuncGraph" for base in type(graph).__mro__):
        # Don't use the name of the inner graph: it contains a number of this process's traces.
        graph = graph.outer_graph
    return graph


def _count(name):
    """Counts a request for this name in the outermost graph. Returns the number of requests so far."""
    counts = _counts.setdefault(_outermost(), {})
    counts[name] = counts.get(name, 0) + 1
    return counts[name]


def place():
    """Returns a name for the present place in the default graph. The name is the same on all ranks and in every step.
    It does not depend on how often a rank has traced its functions."""
    # Remove the number at the end of a gradient function's name: it counts the traces of this process.
    name = re.sub(r"_\d+$", "", getattr(_outermost(), "name", "graph"))
    return f"{name}.{_count(name)}"


def _node_name(kind, tensor, name):
    """Returns a name that TensorFlow allows for a node."""
    if name is None:
        return f"{kind}_" + re.sub(r"[^a-zA-Z0-9_]", "_", tensor.name)
    name = re.sub(r"[^a-zA-Z0-9_./-]", "_", name).strip("/")
    return name if re.match(r"[a-zA-Z0-9.]", name) else f"{kind}.{name}"


def _label(node, ignore_name_scope):
    """Returns the name of an operation whose node has the name `node`. It is unique, although nodes of two branches may
    have the same name."""
    label = node.rsplit("/", 1)[-1] if ignore_name_scope else node
    count = _count(label)
    return label if count == 1 else f"{label}.{count}"


def _on_its_own_thread(function, tensors, dtypes, name):
    """Does checked() on a separate thread, not on one of the session."""
    body = tf.function(lambda *given: checked(function, given, dtypes), autograph=False)
    unknown = [tf.TensorShape(None)] * len(dtypes)
    with tf.device("/cpu:0"):
        element = tf.raw_ops.TensorDataset(components=tensors, output_shapes=[tensor.shape for tensor in tensors],
                                           name=f"{name}_given")
        # Turn inter-op parallelism off, so that the body runs on the thread that requests the element.
        made = tf.raw_ops.MapDataset(input_dataset=element, other_arguments=[], output_types=dtypes,
                                     f=body.get_concrete_function(*[tf.TensorSpec(None, t.dtype) for t in tensors]),
                                     output_shapes=unknown, use_inter_op_parallelism=False, name=f"{name}_made")
        return tf.raw_ops.DatasetToSingleElement(dataset=made, output_types=dtypes, output_shapes=unknown, name=name)


def add(kind, function, tensors, dtypes, name, ignore_name_scope=False):
    """Adds an operation to the default graph and returns its results. When the graph runs, it calls function(arrays,
    label), with the arrays of `tensors` and the name that all ranks use. `kind` is the kind of the operation. `name` is
    the user's name, or None."""
    label = []  # empty until the name is known; in a graph of TensorFlow 1 the node must exist first

    def run(*given):
        return function(list(given), label[0])

    if tf.compat.v1.executing_eagerly_outside_functions():
        label.append(place() if name is None else name)
        return checked(run, tensors, dtypes)
    made = _on_its_own_thread(run, tensors, dtypes, _node_name(kind, tensors[0], name))
    label.append(_label(made[0].op.name, ignore_name_scope))
    return made
