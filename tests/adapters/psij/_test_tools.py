"""What psij-python's tests import by this name. Its released sources lack the file."""
import contextlib
import datetime
import pathlib
import shutil
import tempfile

import psij

PLACE = pathlib.Path.home() / ".psij" / "test"


def _make_test_dir():
    PLACE.mkdir(parents=True, exist_ok=True)


def _get_timeout(execparams):
    return datetime.timedelta(minutes=1)


def assert_completed(job, status, attached=False):
    assert status is not None and status.state == psij.JobState.COMPLETED, status


def _get_executor_instance(execparams, job=None):
    if job is not None:
        job.spec.launcher = execparams.launcher
        job.spec.attributes = job.spec.attributes or psij.JobAttributes()
    return psij.JobExecutor.get_instance(execparams.executor, url=execparams.url)


@contextlib.contextmanager
def _deploy(path):
    _make_test_dir()
    with tempfile.NamedTemporaryFile(dir=PLACE) as copy:
        shutil.copyfile(path, copy.name)
        yield pathlib.Path(copy.name)
