"""Snakemake's executor plugin for launcherd: snakemake --executor muster. Snakemake finds plugins by the name of the package;
the code is in muster.adapters.snakemake."""

from muster.adapters.snakemake import Executor, ExecutorSettings, common_settings

__all__ = ["Executor", "ExecutorSettings", "common_settings"]
