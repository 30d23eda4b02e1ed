"""For Parsl's own tests (pytest --config FILE): workers in a job of launcherd on this host."""

from muster.adapters.parsl import MusterProvider
from parsl.config import Config
from parsl.executors import HighThroughputExecutor


def fresh_config():
    return Config(executors=[HighThroughputExecutor(label="htex_muster", address="127.0.0.1", loopback_address="127.0.0.1",
                                                    max_workers_per_node=2, encrypted=True,
                                                    provider=MusterProvider(min_blocks=1, max_blocks=1))])
