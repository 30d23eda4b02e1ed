#!/bin/bash
#
# PyTorch's DistributedDataParallel: a rank for every GPU.
# For scripts with init_process_group("env://"): hvdrun gives every rank RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and
# MASTER_PORT. To run it at a site: extends: [polaris, torch-ddp].
# Rendered by muster from the template torch-ddp (built in) with:
#   ranks-per-node = 4  (default)
#   threads = 1  (default)

hvdrun=/opt/muster/bin/hvdrun

# Variables of the ranks.
export OMP_NUM_THREADS=1
export PYTHONUNBUFFERED=1
export TORCH_NCCL_ASYNC_ERROR_HANDLING=1

# The job.
exec "$hvdrun" \
  --ranks-per-node 4 \
  -- python3 train.py --epochs 3
