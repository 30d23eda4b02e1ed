"""The errors of eager operations: each is an error of muster and also the error of TensorFlow that Horovod raises."""

import contextlib

import tensorflow as tf

from muster.exceptions import RanksDifferError


class FailedPrecondition(RanksDifferError, tf.errors.FailedPreconditionError):
    """The ranks differ in a tensor."""

    def __init__(self, message):
        RanksDifferError.__init__(self, message)
        tf.errors.FailedPreconditionError.__init__(self, None, None, message)


class InvalidArgument(ValueError, tf.errors.InvalidArgumentError):
    """An operation is not possible."""

    def __init__(self, message):
        ValueError.__init__(self, message)
        tf.errors.InvalidArgumentError.__init__(self, None, None, message)


@contextlib.contextmanager
def of_tensorflow():
    """Makes errors that leave the block errors of TensorFlow, too."""
    try:
        yield
    except RanksDifferError as error:
        raise FailedPrecondition(str(error)) from None
    except ValueError as error:
        raise InvalidArgument(str(error)) from None
