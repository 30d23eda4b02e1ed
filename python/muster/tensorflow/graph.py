"""Operations in graphs: the names by which ranks match them, and the threads that wait for them.

A tf.function of TensorFlow 2 runs an operation as a tf.numpy_function. It blocks a thread of TensorFlow until the
operation is done. TensorFlow runs such functions in the order in which it has traced them, the same on all ranks. So
ranks never wait for each other in different operations. Names count the operations of the function.

In a graph of TensorFlow 1 operations have no order, and a session may run only some of them. Names are those of the
graph's nodes. A waiting operation must not keep a thread of the session, because other operations need it. So its
function is the map of a dataset with one element, and TensorFlow computes that element on a thread of its own.
"""

import re
import weakref

import tensorflow as tf

from muster.tensorflow.checks import checked

_counts = weakref.WeakKeyDictionary()  # a graph -> {name: number of its operations that asked for this name}


def _outermost():
    """Returns the default graph. If that is a branch or the body of a loop, returns the graph that contains it."""
    graph = tf.compat.v1.get_default_graph()
    while any(base.__name__ == "ControlFlowFuncGraph" for base in type(graph).__mro__):
        graph = graph.outer_graph  # the name of a branch or a loop's body counts the traces of this process
    return graph


def _count(name):
    """Returns how often the outermost graph was asked for this name, this time included."""
    counts = _counts.setdefault(_outermost(), {})
    counts[name] = counts.get(name, 0) + 1
    return counts[name]


def place():
    """Returns a name for the place in the default graph. It is the same on all ranks, in every step, and however often
    a rank has traced its functions."""
    # Cut the number at the end of a gradient function's name, because it counts the traces of this process.
    name = re.sub(r"_\d+$", "", getattr(_outermost(), "name", "graph"))
    return f"{name}.{_count(name)}"


def _node_name(kind, tensor, name):
    """Returns a name that TensorFlow allows for a node."""
    if name is None:
        return f"{kind}_" + re.sub(r"[^a-zA-Z0-9_]", "_", tensor.name)
    name = re.sub(r"[^a-zA-Z0-9_./-]", "_", name).strip("/")
    return name if re.match(r"[a-zA-Z0-9.]", name) else f"{kind}.{name}"


def _label(node, ignore_name_scope):
    """Returns the name of an operation whose node has the name `node`. Nodes of two branches may have the same name."""
    label = node.rsplit("/", 1)[-1] if ignore_name_scope else node
    count = _count(label)
    return label if count == 1 else f"{label}.{count}"


def _on_its_own_thread(function, tensors, dtypes, name):
    """Does checked() without a thread of the session."""
    body = tf.function(lambda *given: checked(function, given, dtypes), autograph=False)
    unknown = [tf.TensorShape(None)] * len(dtypes)
    with tf.device("/cpu:0"):
        element = tf.raw_ops.TensorDataset(components=tensors, output_shapes=[tensor.shape for tensor in tensors],
                                           name=f"{name}_given")
        # Without inter-op parallelism the body runs on the thread that asks for the element.
        made = tf.raw_ops.MapDataset(input_dataset=element, other_arguments=[], output_types=dtypes,
                                     f=body.get_concrete_function(*[tf.TensorSpec(None, t.dtype) for t in tensors]),
                                     output_shapes=unknown, use_inter_op_parallelism=False, name=f"{name}_made")
        return tf.raw_ops.DatasetToSingleElement(dataset=made, output_types=dtypes, output_shapes=unknown, name=name)


def add(kind, function, tensors, dtypes, name, ignore_name_scope=False):
    """Returns the tensors that `function` computes. Its arguments are the arrays of `tensors`, and the name that all
    ranks use. It is called when the default graph runs. `kind` is the kind of the operation. `name` is the
    user's, or None."""
    label = []  # in a graph of TensorFlow 1 it is known only once the node exists

    def run(*given):
        return function(list(given), label[0])

    if tf.compat.v1.executing_eagerly_outside_functions():
        label.append(place() if name is None else name)
        return checked(run, tensors, dtypes)
    made = _on_its_own_thread(run, tensors, dtypes, _node_name(kind, tensors[0], name))
    label.append(_label(made[0].op.name, ignore_name_scope))
    return made
