// Libmuster's kernels on one GPU: the code that is a part of this library, loaded, and its launches. The host waits for
// nothing. Any thread, one at a time for each stream.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "base/status.h"
#include "collectives/device/gpu.h"
#include "collectives/kernel/dtype.h"
#include "collectives/kernel/reduce.h"

namespace muster::collectives::device {

// Elements from one place of the device to another one. `from` 0: zeros.
struct Move {
  DeviceAddress from = 0;
  DeviceAddress to = 0;
  std::size_t elements = 0;
};

class Kernels {
 public:
  // The code that was built in; empty: built without nvcc.
  static std::span<const std::byte> image();
  // NOT_FOUND: built without nvcc. INTERNAL: the driver does not take them (it is older than the compiler). They have
  // run when this returns, so that a launch waits for nothing later on.
  static base::Result<std::unique_ptr<Kernels>> load(const std::shared_ptr<const Gpu>& gpu);

  // One launch for each 1020 moves. Between float32 and 16-bit floats elements are cast; otherwise the types are the
  // same. Scales are for floats. INVALID_ARGUMENT: there is no kernel for that.
  base::Status transfer(void* stream, std::span<const Move> moves, DType from, DType to, double scale = 1) const;
  // Every output gets the reduction of all inputs: reduce_to_all() of kernel/reduce.h, of at most kMostSharers.
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
