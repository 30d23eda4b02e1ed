#!/bin/bash -l
#COBALT -n 1
#COBALT -t 60
#COBALT -q full-node
#COBALT -A physics
#COBALT --attrs filesystems=home,theta-fs0,grand:pubnet=true
#
# ALCF ThetaGPU: a second Cobalt (module load cobalt/cobalt-gpu), DGX A100 nodes with 128 cores and 8 GPUs.
# Rendered by muster from the template thetagpu (built in) with:
#   nodes = 1  (default)
#   time = 1h  (default)
#   project = physics
#   queue = full-node  (default)
#   folder = .  (default)
#   filesystems = home,theta-fs0,grand  (default)
#   pubnet = true  (default)
#   ranks-per-node = 8  (default)
# Cobalt runs this file itself, when the job starts: make it executable, and leave it as it is until then.

hvdrun=/opt/muster/bin/hvdrun

# Variables of the ranks.
export http_proxy=http://proxy.tmi.alcf.anl.gov:3128
export https_proxy=http://proxy.tmi.alcf.anl.gov:3128
export HTTP_PROXY=http://proxy.tmi.alcf.anl.gov:3128
export HTTPS_PROXY=http://proxy.tmi.alcf.anl.gov:3128

# The job.
exec "$hvdrun" \
  --ranks-per-node 8 \
  --bootstrap ssh \
  -- python3 train.py --epochs 3
