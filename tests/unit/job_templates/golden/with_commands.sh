#!/bin/bash
#SBATCH --nodes=2
#
# Commands around a job.
# Rendered by muster from the template t (t.yaml) with:
#   data-set = it's $(here)  (default)

hvdrun=/opt/muster/bin/hvdrun

# Software of the site.
module use /soft/modulefiles
module load conda/2026

# Parameters, for the commands before and after the job.
# shellcheck disable=SC2016  # what is in quotes is meant as it stands
export PARAM_DATA_SET='it'\''s $(here)'

# Before the job.
set -e
mkdir -p results
set +e

# Before the job, once on every host.
# shellcheck disable=SC2016  # what is in quotes is meant as it stands
"$hvdrun" -N 1 --bind-to none --gpu-bind none \
  --bootstrap srun \
  -- sh -c '
[ "$MUSTER_LOCAL_RANK" = 0 ] || exit 0
set -e
mkdir -p /local/data
cp "$PARAM_DATA_SET" /local/data
' || exit

# The job.
# Forwards the scheduler's SIGTERM at the time limit to the job, so that the job ends in order.
early=
signalled=
job=
trap 'if [ -n "$job" ]; then signalled=1; kill -TERM "$job"; else early=1; fi' TERM
# shellcheck disable=SC2016  # what is in quotes is meant as it stands
"$hvdrun" \
  --bootstrap srun \
  -- python3 'train it.py' '$HOME' &
job=$!
[ -z "$early" ] || kill -TERM "$job"
wait "$job"
status=$?
while [ -n "$signalled" ]; do
  signalled=
  wait "$job"
  status=$?
done
trap '' TERM

# After the job, once on every host.
# shellcheck disable=SC2016  # what is in quotes is meant as it stands
"$hvdrun" -N 1 --bind-to none --gpu-bind none \
  --bootstrap srun \
  -- sh -c '
[ "$MUSTER_LOCAL_RANK" = 0 ] || exit 0
set -e
rm -rf /local/data
' ||
  echo "the commands after the job failed on a host" >&2

# After the job.
echo "ended with $status"

# The exit code is the job's.
exit "$status"
