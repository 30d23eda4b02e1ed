#!/bin/bash
#flux: --nodes=1
#flux: --exclusive
#flux: --time-limit=60m
#
# GPU nodes under Flux: whole nodes, a rank for every GPU.
# Rendered by muster from the template flux-gpu (built in) with:
#   nodes = 1  (default)
#   time = 1h  (default)
#   ranks-per-node = 4  (default)

hvdrun=/opt/muster/bin/hvdrun

# The job.
exec "$hvdrun" \
  --ranks-per-node 4 \
  --bootstrap flux \
  -- python3 train.py --epochs 3
