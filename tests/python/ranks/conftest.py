"""The ranks of a test are in the job before its first test, and leave it after the last."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def job():
    from muster import world
    world.init()
    yield
    world.shutdown()
