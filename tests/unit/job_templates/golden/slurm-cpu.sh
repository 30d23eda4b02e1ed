#!/bin/bash
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --time=1:00:00
#
# CPU nodes under Slurm.
# Agents are started by srun, one a node; every rank has its share of the cores.
# Rendered by muster from the template slurm-cpu (built in) with:
#   nodes = 1  (default)
#   time = 1h  (default)
#   ranks-per-node = 1  (default)

hvdrun=/opt/muster/bin/hvdrun

# The job.
exec "$hvdrun" \
  --ranks-per-node 1 \
  --bootstrap srun \
  -- python3 train.py --epochs 3
