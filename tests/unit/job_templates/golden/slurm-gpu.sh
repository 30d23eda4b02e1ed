#!/bin/bash
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --time=1:00:00
#SBATCH --gpus-per-node=4
#
# GPU nodes under Slurm: a rank for every GPU.
# Rendered by muster from the template slurm-gpu (built in) with:
#   nodes = 1  (default)
#   time = 1h  (default)
#   ranks-per-node = 4  (default)

hvdrun=/opt/muster/bin/hvdrun

# The job.
exec "$hvdrun" \
  --ranks-per-node 4 \
  --bootstrap srun \
  -- python3 train.py --epochs 3
