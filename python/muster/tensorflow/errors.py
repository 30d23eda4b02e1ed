"""The errors of eager operations. Each class is an error of Muster, and also the TensorFlow error that Horovod
raises."""

import contextlib

import tensorflow as tf

from muster.exceptions import HorovodInternalError, RanksDifferError


class FailedPrecondition(RanksDifferError, tf.errors.FailedPreconditionError):
    """The ranks differ in a tensor."""

    def __init__(self, message):
        RanksDifferError.__init__(self, message)
        tf.errors.FailedPreconditionError.__init__(self, None, None, message)


class InvalidArgument(ValueError, tf.errors.InvalidArgumentError):
    """An argument of an operation is wrong."""

    def __init__(self, message):
        ValueError.__init__(self, message)
        tf.errors.InvalidArgumentError.__init__(self, None, None, message)


@contextlib.contextmanager
def of_tensorflow():
    """Turns errors that leave the block into errors that are also TensorFlow's."""
    try:
        yield
    except RanksDifferError as error:
        raise FailedPrecondition(str(error)) from None
    except ValueError as error:
        raise InvalidArgument(str(error)) from None


@contextlib.contextmanager
def as_horovods():
    """Turns errors of a graph whose operation has failed because of another rank into HorovodInternalError."""
    try:
        yield
    except tf.errors.UnknownError as error:
        # TensorFlow puts the name of the exception of an operation's function into the message.
        if HorovodInternalError.__name__ not in error.message:
            raise
        raise HorovodInternalError(error.message) from error
