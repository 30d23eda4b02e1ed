// Libmuster's kernels on one GPU: loads the code that is part of this library, and launches it. No launch makes the
// host wait.
// Thread: any, but one at a time for each stream.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "base/status.h"
#include "collectives/device/gpu.h"
#include "collectives/kernel/dtype.h"
#include "collectives/kernel/reduce.h"

namespace muster::collectives::device {

// Moves elements between two places on the device. If `from` is 0, writes zeros.
struct Move {
  DeviceAddress from = 0;
  DeviceAddress to = 0;
  std::size_t elements = 0;
};

class Kernels {
 public:
  // Returns the built-in code; empty if libmuster was built without nvcc.
  static std::span<const std::byte> image();
  // NOT_FOUND if built without nvcc. INTERNAL if the driver rejects the code, because it is older than the compiler.
  // All kernels have run once when load() returns, so that later launches wait for nothing.
  static base::Result<std::unique_ptr<Kernels>> load(const std::shared_ptr<const Gpu>& gpu);

  // Launches once for each 1020 moves. It casts between float32 and 16-bit floats; other types must be equal. Scales
  // are for floats only. INVALID_ARGUMENT if no kernel supports these types.
  base::Status transfer(void* stream, std::span<const Move> moves, DType from, DType to, double scale = 1) const;
  // Gives every output the reduction of all inputs, as reduce_to_all() of kernel/reduce.h does. At most kMostSharers
  // inputs.
  base::Status reduce(void* stream, std::span<const DeviceAddress> inputs, std::span<const DeviceAddress> outputs,
                      std::size_t count, DType type, RedOp op, Scale scale) const;

 private:
  static constexpr int kTransfers = 12;
  explicit Kernels(std::shared_ptr<const Gpu> gpu) : gpu_(std::move(gpu)) {}
  base::Status find_all();
  base::Status launch_all();
  template <int kCapacity>
  base::Status launch_transfer(void* function, void* stream, std::span<const Move> moves, double scale) const;
  base::Status launch(void* function, void* stream, std::size_t blocks, const void* arguments) const;

  const std::shared_ptr<const Gpu> gpu_;
  Owned<void*> module_;
  std::array<void*, kTransfers> few_{};
  std::array<void*, kTransfers> some_{};
  std::array<void*, kTransfers> many_{};
  std::array<void*, kDTypes> reduce_{};
};

}  // namespace muster::collectives::device
