// The kernels' bodies run on the host, thread after thread: what tests compare with references, and what the driver
// that is none executes.
#pragma once

#include <cstdint>
#include <string>

#include "collectives/device/kernel_arguments.h"
#include "collectives/device/kernel_bodies.h"

namespace muster::collectives::device {

template <class Body>
void for_each_thread(std::uint32_t blocks, const Body& body) {
  for (std::uint32_t block = 0; block < blocks; ++block) {
    for (std::uint32_t thread = 0; thread < kThreads; ++thread) body(block, thread);
  }
}

// Runs the kernel of this name with `arguments`, a Transfer or a Reduction; null for no blocks. False: there is none.
inline bool run_on_host(const std::string& name, std::uint32_t blocks, const void* arguments) {
#define MUSTER_RUN_TRANSFER(kernel, From, To)                                                             \
  if (name == "muster_transfer_" #kernel "_few") {                                                        \
    const auto* const table = static_cast<const Transfer<kFewSegments>*>(arguments);                      \
    for_each_thread(blocks, [&](auto block, auto thread) { transfer<From, To>(*table, block, thread); }); \
    return true;                                                                                          \
  }                                                                                                       \
  if (name == "muster_transfer_" #kernel "_some") {                                                       \
    const auto* const table = static_cast<const Transfer<kSomeSegments>*>(arguments);                     \
    for_each_thread(blocks, [&](auto block, auto thread) { transfer<From, To>(*table, block, thread); }); \
    return true;                                                                                          \
  }                                                                                                       \
  if (name == "muster_transfer_" #kernel "_many") {                                                       \
    const auto* const table = static_cast<const Transfer<kManySegments>*>(arguments);                     \
    for_each_thread(blocks, [&](auto block, auto thread) { transfer<From, To>(*table, block, thread); }); \
    return true;                                                                                          \
  }
  MUSTER_TRANSFER_KERNELS(MUSTER_RUN_TRANSFER)
#undef MUSTER_RUN_TRANSFER
#define MUSTER_RUN_REDUCE(kernel, Type)                                                            \
  if (name == "muster_reduce_" #kernel) {                                                          \
    const auto* const call = static_cast<const Reduction*>(arguments);                             \
    for_each_thread(blocks, [&](auto block, auto thread) { reduce<Type>(*call, block, thread); }); \
    return true;                                                                                   \
  }
  MUSTER_REDUCE_KERNELS(MUSTER_RUN_REDUCE)
#undef MUSTER_RUN_REDUCE
  return false;
}

}  // namespace muster::collectives::device
