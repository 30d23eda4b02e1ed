"""Raises tf.errors.FailedPreconditionError in a graph if ranks differ. A tf.numpy_function cannot raise that error.

So a function that fails returns the number of its failure. Muster's own kernel reads that number and fails with the
right error. This module registers the kernel with TensorFlow's C API for kernels (tensorflow/c/kernels.h), whose binary
interface is stable. If a TensorFlow does not have that API, the function raises its own error, and TensorFlow turns
that into UnknownError.
"""

import ctypes
import itertools
import os
from ctypes import CFUNCTYPE, c_bool, c_char_p, c_int, c_int64, c_void_p

import numpy as np
import tensorflow as tf

from muster.exceptions import RanksDifferError

_OP = b"MusterCheck"
_FAILED_PRECONDITION = 9  # TF_Code
_FUNCTIONS = {
    "TF_NewStatus": (c_void_p, []),
    "TF_GetCode": (c_int, [c_void_p]),
    "TF_SetStatus": (None, [c_void_p, c_int, c_char_p]),
    "TF_DeleteStatus": (None, [c_void_p]),
    "TF_TensorData": (c_void_p, [c_void_p]),
    "TF_DeleteTensor": (None, [c_void_p]),
    "TF_NewOpDefinitionBuilder": (c_void_p, [c_char_p]),
    "TF_OpDefinitionBuilderAddInput": (None, [c_void_p, c_char_p]),
    "TF_OpDefinitionBuilderSetIsStateful": (None, [c_void_p, c_bool]),
    "TF_OpDefinitionBuilderSetShapeInferenceFunction": (None, [c_void_p, c_void_p]),
    "TF_RegisterOpDefinition": (None, [c_void_p, c_void_p]),
    "TF_ShapeInferenceContextSetUnknownShape": (None, [c_void_p, c_void_p]),
    "TF_NewKernelBuilder": (c_void_p, [c_char_p, c_char_p, c_void_p, c_void_p, c_void_p]),
    "TF_RegisterKernelBuilder": (None, [c_char_p, c_void_p, c_void_p]),
    "TF_GetInput": (None, [c_void_p, c_int, c_void_p, c_void_p]),
    "TF_OpKernelContext_Failure": (None, [c_void_p, c_void_p]),
}
_COMPUTE = CFUNCTYPE(None, c_void_p, c_void_p)  # (kernel, its TF_OpKernelContext)

_failures = {}  # number -> message, from the failure of the function until the kernel fails
_numbers = itertools.count(1)


class _Api:
    """The functions of _FUNCTIONS."""

    def __init__(self, libraries):
        for name, (result, arguments) in _FUNCTIONS.items():
            function = next((getattr(library, name) for library in libraries if hasattr(library, name)), None)
            if function is None:
                raise AttributeError(name)
            # Make a separate function object, so that no other code changes its types.
            address = ctypes.cast(function, c_void_p).value
            setattr(self, name, CFUNCTYPE(result, *arguments)(address))

    def register(self, compute):
        """Registers the operation and its kernel. Returns True if TensorFlow has accepted both."""
        status = self.TF_NewStatus()
        try:
            builder = self.TF_NewOpDefinitionBuilder(_OP)
            self.TF_OpDefinitionBuilderAddInput(builder, b"failure: int64")
            self.TF_OpDefinitionBuilderSetIsStateful(builder, True)
            self.TF_OpDefinitionBuilderSetShapeInferenceFunction(
                builder, ctypes.cast(self.TF_ShapeInferenceContextSetUnknownShape, c_void_p))
            self.TF_RegisterOpDefinition(builder, status)
            if self.TF_GetCode(status) != 0:
                return False
            kernel = self.TF_NewKernelBuilder(_OP, b"CPU", None, ctypes.cast(compute, c_void_p), None)
            self.TF_RegisterKernelBuilder(_OP, kernel, status)
            return self.TF_GetCode(status) == 0
        finally:
            self.TF_DeleteStatus(status)

    def check(self, context):
        """TensorFlow calls this when the op runs. An input of 0 means success. Any other number is a key of _failures,
        and the op fails with that message."""
        status, tensor = self.TF_NewStatus(), c_void_p()
        try:
            self.TF_GetInput(context, 0, ctypes.byref(tensor), status)
            if self.TF_GetCode(status) == 0:
                number = c_int64.from_address(self.TF_TensorData(tensor)).value
                self.TF_DeleteTensor(tensor)
                if number == 0:
                    return
                message = _failures.pop(number, "ranks differ")
                self.TF_SetStatus(status, _FAILED_PRECONDITION, message.encode())
            self.TF_OpKernelContext_Failure(context, status)
        finally:
            self.TF_DeleteStatus(status)


def _libraries():
    folder = tf.sysconfig.get_lib()
    for name in ("libtensorflow_cc.so.2", "libtensorflow_framework.so.2", "python/_pywrap_tensorflow_internal.so"):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            yield ctypes.CDLL(path)


def _registered():
    """Returns the kernel's function. The caller must keep it alive. None if this TensorFlow does not have the API."""
    before = getattr(tf, "_muster_check", None)
    # If this module is loaded again, don't register twice: TensorFlow would end the process.
    if before is not None:
        return before
    try:
        api = _Api(list(_libraries()))
    except (OSError, AttributeError):
        return None
    compute = _COMPUTE(lambda _, context: api.check(context))
    if not api.register(compute):
        return None
    tf._muster_check = compute
    return compute


_kernel = _registered()


def checked(function, tensors, dtypes):
    """Does tf.numpy_function(). If the function raises RanksDifferError, the operation raises
    tf.errors.FailedPreconditionError."""
    if _kernel is None:
        return tf.numpy_function(function, tensors, dtypes, stateful=True)

    def numbered(*given):
        try:
            return [*function(*given), np.int64(0)]
        except RanksDifferError as error:
            number = next(_numbers)
            _failures[number] = str(error)
            return [*(np.zeros(0, dtype.as_numpy_dtype) for dtype in dtypes), np.int64(number)]

    *made, failure = tf.numpy_function(numbered, tensors, [*dtypes, tf.int64], stateful=True)
    check = tf.compat.v1.get_default_graph().create_op(_OP.decode(), [failure], [])
    with tf.control_dependencies([check]):
        return [tf.identity(tensor) for tensor in made]
