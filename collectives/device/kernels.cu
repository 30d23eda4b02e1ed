// The kernels, under the names of kernel_arguments.h, by which cuModuleGetFunction() finds them. This device code is
// compiled to a fatbin inside libmuster. The host calls nothing here directly.
#include "collectives/device/kernel_arguments.h"
#include "collectives/device/kernel_bodies.h"

namespace muster::collectives::device {

#define MUSTER_DEFINE_TRANSFER(name, From, To)                                               \
  extern "C" __global__ void __launch_bounds__(kThreads)                                     \
      muster_transfer_##name##_few(const __grid_constant__ Transfer<kFewSegments> table) {   \
    transfer<From, To>(table, blockIdx.x, threadIdx.x);                                      \
  }                                                                                          \
  extern "C" __global__ void __launch_bounds__(kThreads)                                     \
      muster_transfer_##name##_some(const __grid_constant__ Transfer<kSomeSegments> table) { \
    transfer<From, To>(table, blockIdx.x, threadIdx.x);                                      \
  }                                                                                          \
  extern "C" __global__ void __launch_bounds__(kThreads)                                     \
      muster_transfer_##name##_many(const __grid_constant__ Transfer<kManySegments> table) { \
    transfer<From, To>(table, blockIdx.x, threadIdx.x);                                      \
  }
MUSTER_TRANSFER_KERNELS(MUSTER_DEFINE_TRANSFER)

#define MUSTER_DEFINE_REDUCE(name, Type)                             \
  extern "C" __global__ void __launch_bounds__(kThreads)             \
      muster_reduce_##name(const __grid_constant__ Reduction call) { \
    reduce<Type>(call, blockIdx.x, threadIdx.x);                     \
  }
MUSTER_REDUCE_KERNELS(MUSTER_DEFINE_REDUCE)

}  // namespace muster::collectives::device
