#!/bin/bash
#
# Hosts without a scheduler, reached by ssh; muster submit gives such a job to launcherd.
# Rendered by muster from the template ssh-lab (built in) with:
#   ranks-per-node = 1  (default)

hvdrun=/opt/muster/bin/hvdrun

# The job.
exec "$hvdrun" \
  --ranks-per-node 1 \
  -- python3 train.py --epochs 3
