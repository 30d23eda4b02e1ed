#!/bin/bash
#BSUB -nnodes 1
#BSUB -W 1:00
#BSUB -P physics
#
# GPU nodes under LSF with jsrun, as Summit's: whole nodes, a rank for every GPU.
# Rendered by muster from the template lsf-gpu (built in) with:
#   nodes = 1  (default)
#   time = 1h  (default)
#   project = physics
#   ranks-per-node = 6  (default)

hvdrun=/opt/muster/bin/hvdrun

# The job.
exec "$hvdrun" \
  --ranks-per-node 6 \
  --bootstrap jsrun \
  -- python3 train.py --epochs 3
