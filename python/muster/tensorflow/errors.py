"""What operations raise eagerly: an error of muster that is also the error of TensorFlow that Horovod raises."""

import contextlib

import tensorflow as tf

from muster.exceptions import RanksDifferError


class FailedPrecondition(RanksDifferError, tf.errors.FailedPreconditionError):
    """Ranks differ in a tensor."""

    def __init__(self, message):
        RanksDifferError.__init__(self, message)
        tf.errors.FailedPreconditionError.__init__(self, None, None, message)


class InvalidArgument(ValueError, tf.errors.InvalidArgumentError):
    """An operation cannot be done."""

    def __init__(self, message):
        ValueError.__init__(self, message)
        tf.errors.InvalidArgumentError.__init__(self, None, None, message)


@contextlib.contextmanager
def of_tensorflow():
    """Errors that leave the block are errors of TensorFlow as well."""
    try:
        yield
    except RanksDifferError as error:
        raise FailedPrecondition(str(error)) from None
    except ValueError as error:
        raise InvalidArgument(str(error)) from None
