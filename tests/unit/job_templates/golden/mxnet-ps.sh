#!/bin/bash
#
# MXNet's parameter server (kvstore dist_sync).
# Rank 0 is the scheduler, the next ranks are servers, the others workers. All run the same command. To run it at a site: extends: [slurm-cpu, mxnet-ps].
# Rendered by muster from the template mxnet-ps (built in) with:
#   ranks-per-node = 4  (default)
#   servers = 1  (default)

hvdrun=/opt/muster/bin/hvdrun

# The job.
# shellcheck disable=SC2016  # what is in quotes is meant as it stands
exec "$hvdrun" \
  --ranks-per-node 4 \
  -- sh -c '
if [ "$MUSTER_SIZE" -le 2 ]; then
  echo '\''mxnet-ps needs more than 2 ranks'\'' >&2
  exit 2
fi
if [ "$MUSTER_RANK" -lt 1 ]; then  # scheduler
  export DMLC_ROLE=scheduler
  export DMLC_PS_ROOT_URI="$MASTER_ADDR"
  export DMLC_PS_ROOT_PORT="$MASTER_PORT"
  export DMLC_NUM_SERVER=1
  export DMLC_NUM_WORKER="$((MUSTER_SIZE - 2))"
elif [ "$MUSTER_RANK" -lt 2 ]; then  # server
  export DMLC_ROLE=server
  export DMLC_PS_ROOT_URI="$MASTER_ADDR"
  export DMLC_PS_ROOT_PORT="$MASTER_PORT"
  export DMLC_NUM_SERVER=1
  export DMLC_NUM_WORKER="$((MUSTER_SIZE - 2))"
else  # worker
  export DMLC_ROLE=worker
  export DMLC_PS_ROOT_URI="$MASTER_ADDR"
  export DMLC_PS_ROOT_PORT="$MASTER_PORT"
  export DMLC_NUM_SERVER=1
  export DMLC_NUM_WORKER="$((MUSTER_SIZE - 2))"
fi
exec "$@"
' muster-role python3 train.py --epochs 3
