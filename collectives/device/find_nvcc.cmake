# MUSTER_NVCC, if there is one: -DMUSTER_NVCC=PATH (OFF: none is wanted), $CUDACXX, -DCUDAToolkit_ROOT=DIR, the PATH,
# /usr/local/cuda, or what `tools/peers cuda` has installed.
file(GLOB peers_bin ${CMAKE_SOURCE_DIR}/build/release/peers/cuda/lib/python3*/site-packages/nvidia/cu13/bin)
find_program(MUSTER_NVCC NAMES $ENV{CUDACXX} nvcc HINTS ${CUDAToolkit_ROOT}/bin $ENV{CUDAToolkit_ROOT}/bin
             PATHS /usr/local/cuda/bin ${peers_bin})
