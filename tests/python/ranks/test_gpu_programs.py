"""What tests/gpu/train.py checks on a GPU, on one that is none (emulated_gpu.py): so that its lines have run."""

import pathlib
import sys

import pytest
import torch.distributed as dist
from emulated_gpu import gpu, on_gpu  # noqa: F401

import muster.torch.distributed  # noqa: F401

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "gpu"))
import operations  # noqa: E402

pytestmark = pytest.mark.usefixtures("on_gpu")


@pytest.mark.parametrize("check", ["check_gathers", "check_alltoalls", "check_scatters", "check_memory",
                                   "check_backward"])
def test_operations(check):
    getattr(operations, check)("cpu")


def test_distributed():
    dist.init_process_group("muster")
    operations.check_distributed("cpu")
    dist.destroy_process_group()
