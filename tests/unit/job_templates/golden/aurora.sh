#!/bin/bash -l
#PBS -l select=1
#PBS -l place=scatter
#PBS -l walltime=0:10:00
#PBS -l filesystems=home:flare
#PBS -q debug
#PBS -A physics
#
# ALCF Aurora: PBS, nodes with two sockets of 52 cores and 6 Intel GPUs of two tiles.
# Twelve ranks a node, each with a tile and eight cores beside it; cores 0 and 52 are the system's.
# A rank sees its tile alone, as device 0: torch.xpu.set_device(0), not set_device(local_rank).
# Rendered by muster from the template aurora (built in) with:
#   nodes = 1  (default)
#   time = 10m  (default)
#   project = physics
#   queue = debug  (default)
#   ranks-per-node = 12  (default)
#   filesystems = home:flare  (default)
#   cpu-bind = list:1-8:9-16:17-24:25-32:33-40:41-48:53-60:61-68:69-76:77-84:85-92:93-100  (default)
#   gpu-bind = tile  (default)
#   hierarchy = COMPOSITE  (default)
#   threads = 1  (default)

hvdrun=/opt/muster/bin/hvdrun

# PBS starts scripts at home.
cd "${PBS_O_WORKDIR:-.}" || exit 125

# Variables of the ranks.
export http_proxy=http://proxy.alcf.anl.gov:3128
export https_proxy=http://proxy.alcf.anl.gov:3128
export HTTP_PROXY=http://proxy.alcf.anl.gov:3128
export HTTPS_PROXY=http://proxy.alcf.anl.gov:3128
export ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE
export ZE_ENABLE_PCI_ID_DEVICE_ORDER=1
export OMP_NUM_THREADS=1

# The job.
exec "$hvdrun" \
  --ranks-per-node 12 \
  --bind-to list:1-8:9-16:17-24:25-32:33-40:41-48:53-60:61-68:69-76:77-84:85-92:93-100 \
  --gpu-bind tile \
  --bootstrap pals \
  --reserve-cores 0,52 \
  --gpu-tiles 6x2 \
  -- python3 train.py --epochs 3
