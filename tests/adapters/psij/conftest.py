"""For psij-python's own tests, beside which this file is copied: they run on Muster's executor.

The released sources have the tests, but not their conftest.py. `execparams` is what that one gives. Tests that ask for the
executor "local" get Muster's."""

import pathlib

import psij
import pytest
from executor_test_params import ExecutorTestParams

INSTEAD_OF_LOCAL = pathlib.Path(__file__).with_name("instead_of_local.txt").read_text().split()


def pytest_generate_tests(metafunc):
    if "execparams" in metafunc.fixturenames:
        every = [ExecutorTestParams("muster", None), ExecutorTestParams("muster", "single"), ExecutorTestParams("muster", "mpirun")]
        metafunc.parametrize("execparams", every, ids=str)


@pytest.fixture(autouse=True)
def muster_instead_of_local(request, monkeypatch):
    if request.path.name not in INSTEAD_OF_LOCAL:
        return
    real = psij.JobExecutor.get_instance

    def get_instance(name, *arguments, **keywords):
        return real("muster" if name == "local" else name, *arguments, **keywords)

    monkeypatch.setattr(psij.JobExecutor, "get_instance", staticmethod(get_instance))
