# shellcheck shell=bash
# For the scripts beside this one, which source it in the root of the tree.
# A second clone finds what the first has compiled.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros

# die TEXT: what was wrong with the command line.
die() {
  echo "$(basename "$0"): $1" >&2
  exit 2
}

# has_gpu: whether this machine has an NVIDIA GPU with a driver.
has_gpu() {
  [ -e /proc/driver/nvidia/version ] || [ -e /dev/nvidiactl ]
}

# minutes CPU_SECONDS: how long that takes on this machine's cores, rounded up.
minutes() {
  echo $((($1 / $(nproc) + 59) / 60))
}

# need_disk MIB WHAT: ends where the tree's file system has less room.
need_disk() {
  local left
  left=$(df --output=avail -BM . | tail -n 1 | tr -dc 0-9)
  [ "$left" -ge "$1" ] || {
    echo "$(basename "$0"): $PWD has $left MiB left, and $2 needs $1 MiB: free some, or clone where there is room" >&2
    exit 1
  }
}

# build FOLDER TARGET...: on a terminal ninja shows each step, elsewhere every tenth part is a line. All output of a
# step that fails is shown.
build() {
  local folder=$1
  shift
  if [ -t 1 ]; then
    NINJA_STATUS='[step %f of %t, %e s] ' cmake --build "$folder" --target "$@"
  else
    NINJA_STATUS='@%f %t %e ' cmake --build "$folder" --target "$@" | {
      local line step all seconds tenth last=0
      while IFS= read -r line; do
        if [[ $line =~ ^@([0-9]+)\ ([0-9]+)\ ([0-9]+) ]]; then
          step=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]} seconds=${BASH_REMATCH[3]}
          tenth=$((10 * step / all))
          [ $tenth -le $last ] || echo "building: step $step of $all, $seconds s"
          last=$tenth
        else
          printf '%s\n' "$line"
        fi
      done
    }
  fi
}
