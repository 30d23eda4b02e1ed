#!/bin/bash
#COBALT -n 2
#COBALT -t 30
#COBALT -q debug-cache-quad
#COBALT -A physics
#COBALT --attrs mcdram=cache:numa=quad:filesystems=home,theta-fs0
#
# ALCF Theta: Cobalt, Cray XC40 nodes with 64 KNL cores of four threads.
# The script runs on a service node; agents get to the compute nodes by aprun.
# Rendered by muster from the template theta (built in) with:
#   nodes = 2  (default)
#   time = 30m  (default)
#   project = physics
#   queue = debug-cache-quad  (default)
#   filesystems = home,theta-fs0  (default)
#   mcdram = cache  (default)
#   numa = quad  (default)
#   ranks-per-node = 4  (default)
#   depth = 32  (default)
#   hyperthreads = 2  (default)
# Cobalt runs this file itself, when the job starts: make it executable, and leave it as it is until then.

hvdrun=/opt/muster/bin/hvdrun

# Variables of the ranks.
export OMP_NUM_THREADS=32
export KMP_BLOCKTIME=0

# The job.
exec "$hvdrun" \
  --ranks-per-node 4 \
  --bind-to depth \
  --depth 32 \
  --hyperthreads 2 \
  --bootstrap aprun \
  -- python3 train.py --epochs 3
