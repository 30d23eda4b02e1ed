"""Snakemake's test base for executor plugins (snakemake.common.tests, in its wheel) on Muster's plugin, and tests of the
plugin (python/muster/adapters/snakemake.py). Both tests of the base run. Its variant with the storage of another machine
(TestWorkflowsMinioPlayStorageBase) is left out, because it needs a server of S3."""
from conftest import HERE, copied


def test_the_plugin(peer, tmp_path):
    counts = peer("snakemake").run_tests(copied(tmp_path / "ours", HERE / "snakemake"), "--timeout", 300)
    assert counts["passed"] >= 10 and "skipped" not in counts, counts
