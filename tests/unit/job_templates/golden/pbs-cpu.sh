#!/bin/bash -l
#PBS -l select=1:ncpus=1
#PBS -l place=scatter
#PBS -l walltime=1:00:00
#
# CPU nodes under PBS.
# hvdrun starts one agent on each node of the job over ssh; every rank has its share of the cores.
# Rendered by muster from the template pbs-cpu (built in) with:
#   nodes = 1  (default)
#   time = 1h  (default)
#   cpus = 1  (default)
#   ranks-per-node = 1  (default)

hvdrun=/opt/muster/bin/hvdrun

# PBS starts scripts at home.
cd "${PBS_O_WORKDIR:-.}" || exit 125

# The job.
exec "$hvdrun" \
  --ranks-per-node 1 \
  -- python3 train.py --epochs 3
