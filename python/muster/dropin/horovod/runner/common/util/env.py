"""horovod.runner.common.util.env."""

from muster.runner_env import get_env_rank_and_size
