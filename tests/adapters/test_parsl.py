"""Parsl's own tests with workers that Muster's provider starts (python/muster/adapters/parsl.py), and tests of the provider.

Parsl's tests are those of its wheel, as they are, with --config for a site: as Parsl runs them on Slurm.

| left out | because |
|---|---|
| tests that Parsl marks `local` | they bring their own configuration, mostly of threads or of a local provider |
| tests that Parsl marks `cleannet` or `unix_filesystem_permissions_required` | they need the internet, or a user that is not root |
"""
from conftest import HERE, copied

MARKS = "not cleannet and not unix_filesystem_permissions_required"


def test_its_own_tests(peer):
    parsl = peer("parsl")
    tests = next((parsl.python.parents[1] / "lib").glob("python3*/site-packages/parsl/tests"))
    counts = parsl.run_tests(tests, "--config", HERE / "parsl/muster_config.py", "-k", MARKS, "--timeout", 300)
    assert counts["passed"] >= 140 and counts["skipped"] <= 3, counts


def test_the_provider(peer, tmp_path):
    folder = copied(tmp_path / "ours", HERE / "parsl")
    counts = peer("parsl").run_tests(folder / "test_muster_provider.py")
    assert counts["passed"] >= 9 and "skipped" not in counts, counts
