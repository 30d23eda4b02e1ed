# MUSTER_NVCC, if there is one: -DMUSTER_NVCC=PATH (OFF: none is wanted), $CUDACXX, -DCUDAToolkit_ROOT=DIR, the PATH,
# /usr/local/cuda, or what `tools/peers cuda` has installed.
file(GLOB peers_bin ${CMAKE_SOURCE_DIR}/build/release/peers/cuda/lib/python3*/site-packages/nvidia/cu13/bin)
set(roots ${CUDAToolkit_ROOT} $ENV{CUDAToolkit_ROOT})
list(TRANSFORM roots APPEND /bin)
find_program(MUSTER_NVCC NAMES $ENV{CUDACXX} nvcc HINTS ${roots}
             PATHS /usr/local/cuda/bin ${peers_bin})
