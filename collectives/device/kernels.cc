// Libmuster's kernels: the built-in code, loading, and launches.
// Read load() and launch_all() first, then transfer() and reduce().
#include "collectives/device/kernels.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "collectives/device/kernel_arguments.h"

// The fatbin of kernels.cu, as bytes of this library.
#if defined(MUSTER_KERNELS)
asm(".section .rodata\n"
    ".balign 64\n"
    ".local kMusterKernelsBegin\n"
    ".local kMusterKernelsEnd\n"
    "kMusterKernelsBegin:\n"
    ".incbin \"" MUSTER_KERNELS
    "\"\n"
    "kMusterKernelsEnd:\n"
    ".previous\n");
extern "C" const std::byte kMusterKernelsBegin[] __attribute__((visibility("hidden")));
extern "C" const std::byte kMusterKernelsEnd[] __attribute__((visibility("hidden")));
#endif

namespace muster::collectives::device {
namespace {

#define MUSTER_NAME(name, ...) #name,
constexpr const char* kTransferNames[] = {MUSTER_TRANSFER_KERNELS(MUSTER_NAME)};
constexpr const char* kReduceNames[] = {MUSTER_REDUCE_KERNELS(MUSTER_NAME)};  // by DType
#undef MUSTER_NAME
static_assert(std::size(kReduceNames) == kDTypes);

// Returns the index of the kernel that casts `from` to `to` and scales by `scale`; nullopt if no kernel does that.
std::optional<std::size_t> transfer_of(DType from, DType to, double scale) {
  if (from == to && scale == 1) {
    const std::size_t size = size_of(from);
    return size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3;
  }
  const std::string name = fmt::format("{}_{}", name_of(from), name_of(to));
  const auto* const found = std::ranges::find(kTransferNames, name);
  if (found == std::end(kTransferNames)) return std::nullopt;
  return static_cast<std::size_t>(found - std::begin(kTransferNames));
}

constexpr std::size_t units_of(std::size_t elements) {
  return (elements + kUnitElements - 1) / kUnitElements;
}

// Limit for the first launches. It is shorter than other ranks wait for this one, except with a short
// MUSTER_OPERATION_TIMEOUT.
constexpr std::chrono::seconds kFirstLaunches{10};

constexpr std::size_t kMostBlocks = 0x7fffffff;  // of a grid

}  // namespace

std::span<const std::byte> Kernels::image() {
#if defined(MUSTER_KERNELS)
  return {kMusterKernelsBegin, kMusterKernelsEnd};
#else
  return {};
#endif
}

base::Result<std::unique_ptr<Kernels>> Kernels::load(const std::shared_ptr<const Gpu>& gpu) {
  if (image().empty()) {
    return base::not_found("libmuster was built without nvcc: it has no kernels for GPUs");
  }
  std::unique_ptr<Kernels> kernels(new Kernels(gpu));
  void* module = nullptr;
  const auto* const code = static_cast<const void*>(image().data());
  MUSTER_RETURN_IF_ERROR(
      gpu->call("libmuster's kernels (cuModuleLoadData)", gpu->api().module_load_data, &module, code));
  kernels->module_ = Owned<void*>(gpu, module, gpu->api().module_unload);
  MUSTER_RETURN_IF_ERROR(kernels->find_all());
  const base::Status launched = kernels->launch_all();
  if (launched.ok()) return kernels;
  kernels->module_.leave();  // kernels may still be on the device
  return launched;
}

base::Status Kernels::find_all() {
  static_assert(std::size(kTransferNames) == kTransfers);
  const auto find = [this](const std::string& name, void*& function) {
    return gpu_->call(name.c_str(), gpu_->api().module_get_function, &function, module_.get(), name.c_str());
  };
  for (std::size_t i = 0; i < few_.size(); ++i) {
    MUSTER_RETURN_IF_ERROR(find(fmt::format("muster_transfer_{}_few", kTransferNames[i]), few_[i]));
    MUSTER_RETURN_IF_ERROR(find(fmt::format("muster_transfer_{}_some", kTransferNames[i]), some_[i]));
    MUSTER_RETURN_IF_ERROR(find(fmt::format("muster_transfer_{}_many", kTransferNames[i]), many_[i]));
  }
  for (std::size_t i = 0; i < reduce_.size(); ++i) {
    MUSTER_RETURN_IF_ERROR(find(fmt::format("muster_reduce_{}", kReduceNames[i]), reduce_[i]));
  }
  return base::ok_status();
}

// Launches every kernel once with nothing to do. The driver loads a function at its first launch and may then wait for
// the whole context. That includes the caller's streams that are held until the launching thread continues.
base::Status Kernels::launch_all() {
  MUSTER_ASSIGN_OR_RETURN(const Stream stream, make_stream(gpu_));
  MUSTER_ASSIGN_OR_RETURN(const Event done, make_event(gpu_));
  const auto table = std::make_unique<Transfer<kManySegments>>();  // the smaller tables are prefixes of this one
  table->count = 1;                                                // a segment without elements
  const Reduction call{
      .in = {}, .out = {}, .count = 0, .before = 1, .after = 1, .divisor = 1, .op = 0, .inputs = 1, .outputs = 0};
  for (const auto& functions : {few_, some_, many_}) {
    for (void* const function : functions) MUSTER_RETURN_IF_ERROR(launch(function, stream.get(), 1, table.get()));
  }
  for (void* const function : reduce_) MUSTER_RETURN_IF_ERROR(launch(function, stream.get(), 1, &call));
  MUSTER_RETURN_IF_ERROR(gpu_->call("cuEventRecord", gpu_->api().event_record, done.get(), stream.get()));
  const CudaResult result = wait_for(*gpu_, done.get(), kFirstLaunches);
  if (result == kCudaNotReady) {
    return base::deadline_exceeded("GPU {} did not run libmuster's kernels within {} s", gpu_->ordinal(),
                                   kFirstLaunches.count());
  }
  return gpu_->api().check(result, "libmuster's kernels, launched first");
}

base::Status Kernels::launch(void* function, void* stream, std::size_t blocks, const void* arguments) const {
  if (blocks == 0) return base::ok_status();
  if (blocks > kMostBlocks) {
    return base::invalid_argument("{} elements are too many for one launch", blocks * kUnitElements);
  }
  void* parameters[] = {const_cast<void*>(arguments)};  // the driver copies the arguments
  void** const none = nullptr;
  return gpu_->call("cuLaunchKernel", gpu_->api().launch_kernel, function, static_cast<unsigned>(blocks), 1U, 1U,
                    kThreads, 1U, 1U, 0U, stream, static_cast<void**>(parameters), none);
}

template <int kCapacity>
base::Status Kernels::launch_transfer(void* function, void* stream, std::span<const Move> moves, double scale) const {
  Transfer<kCapacity> table;  // entries beyond `count` are not read
  table.scale = scale;
  table.count = 0;
  table.padding = 0;
  std::size_t units = 0;
  for (const Move& move : moves) {
    if (move.elements == 0) continue;
    table.segments[table.count++] = {move.from, move.to, move.elements, units};
    units += units_of(move.elements);
  }
  return launch(function, stream, units, &table);
}

base::Status Kernels::transfer(void* stream, std::span<const Move> moves, DType from, DType to, double scale) const {
  const auto kernel = transfer_of(from, to, scale);
  if (!kernel) {
    return base::invalid_argument("no GPU kernel moves {} to {}, scaled by {}", name_of(from), name_of(to), scale);
  }
  if (moves.size() <= kFewSegments) return launch_transfer<kFewSegments>(few_[*kernel], stream, moves, scale);
  if (moves.size() <= kSomeSegments) return launch_transfer<kSomeSegments>(some_[*kernel], stream, moves, scale);
  while (!moves.empty()) {
    const std::size_t now = std::min<std::size_t>(moves.size(), kManySegments);
    MUSTER_RETURN_IF_ERROR(launch_transfer<kManySegments>(many_[*kernel], stream, moves.first(now), scale));
    moves = moves.subspan(now);
  }
  return base::ok_status();
}

base::Status Kernels::reduce(void* stream, std::span<const DeviceAddress> inputs,
                             std::span<const DeviceAddress> outputs, std::size_t count, DType type, RedOp op,
                             Scale scale) const {
  if (inputs.empty() || inputs.size() > kMostSharers || outputs.size() > kMostSharers) {
    return base::invalid_argument("a GPU kernel reduces 1 to {} buffers at once, not {} to {}", kMostSharers,
                                  inputs.size(), outputs.size());
  }
  Reduction call{};
  std::ranges::copy(inputs, call.in);
  std::ranges::copy(outputs, call.out);
  call.count = count;
  call.before = scale.before;
  call.after = scale.after;
  call.divisor = scale.divisor;
  call.op = static_cast<std::uint32_t>(op == RedOp::kAvg ? RedOp::kSum : op);
  call.inputs = static_cast<std::uint32_t>(inputs.size());
  call.outputs = static_cast<std::uint32_t>(outputs.size());
  return launch(reduce_[static_cast<std::size_t>(type)], stream, units_of(count), &call);
}

}  // namespace muster::collectives::device
