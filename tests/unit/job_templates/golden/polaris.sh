#!/bin/bash -l
#PBS -l select=1:system=polaris
#PBS -l place=scatter
#PBS -l walltime=0:30:00
#PBS -l filesystems=home:eagle
#PBS -q debug
#PBS -A physics
#
# ALCF Polaris: PBS, nodes with 32 cores and 4 NVIDIA A100.
# GPU 3 lies beside the first cores, GPU 0 beside the last ones: ranks get GPUs in reverse order.
# Rendered by muster from the template polaris (built in) with:
#   nodes = 1  (default)
#   time = 30m  (default)
#   project = physics
#   queue = debug  (default)
#   ranks-per-node = 4  (default)
#   filesystems = home:eagle  (default)
#   depth = 8  (default)
#   threads = 1  (default)
#   gpu-bind = order  (default)

hvdrun=/opt/muster/bin/hvdrun

# PBS starts scripts at home.
cd "${PBS_O_WORKDIR:-.}" || exit 125

# Variables of the ranks.
export http_proxy=http://proxy.alcf.anl.gov:3128
export https_proxy=http://proxy.alcf.anl.gov:3128
export HTTP_PROXY=http://proxy.alcf.anl.gov:3128
export HTTPS_PROXY=http://proxy.alcf.anl.gov:3128
export MPICH_GPU_SUPPORT_ENABLED=1
export OMP_NUM_THREADS=1
export OMP_PLACES=threads

# The job.
exec "$hvdrun" \
  --ranks-per-node 4 \
  --bind-to depth \
  --depth 8 \
  --gpu-bind order \
  --gpu-order reverse \
  --bootstrap pals \
  -- python3 train.py --epochs 3
