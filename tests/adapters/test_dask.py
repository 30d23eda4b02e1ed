"""Muster's cluster of Dask (python/muster/adapters/dask.py).

distributed does not publish its tests: neither its wheel nor its released sources have them. So the tests here check what
distributed's tests of its own clusters check, by the same helper (distributed.utils_test).
"""
from conftest import HERE, copied


def test_the_cluster(peer, tmp_path):
    folder = copied(tmp_path / "ours", HERE / "dask")
    counts = peer("dask").run_tests(folder, "--timeout", 300)
    assert counts["passed"] >= 11 and "skipped" not in counts, counts
