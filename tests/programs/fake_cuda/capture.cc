#include "tests/programs/fake_cuda/capture.h"

#include <unistd.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <utility>

#include "collectives/device/cuda_api.h"

namespace {

using muster::collectives::device::CudaResult;

constexpr CudaResult kSuccess = 0;
constexpr CudaResult kInvalidValue = 1;
constexpr CudaResult kInvalidated = 901;
constexpr CudaResult kWrongThread = 908;
constexpr int kGlobal = 0, kRelaxed = 2;
constexpr int kActive = 1, kEnded = 2;

struct Capture {
  int mode = kGlobal;
  pid_t thread = 0;
  int status = kActive;
  std::size_t nodes = 0;
};
struct Captures {
  std::mutex mutex;
  std::map<const void*, Capture> by_stream;
};
Captures& all() {
  static auto* const kOne = new Captures;  // streams use it until the process ends
  return *kOne;
}
thread_local int mode = kGlobal;

bool forbids(const Capture& capture) {
  if (mode == kRelaxed || capture.status != kActive) return false;
  if (capture.thread == gettid()) return capture.mode != kRelaxed;
  return mode == kGlobal && capture.mode == kGlobal;
}

}  // namespace

bool fake_cuda::may_call() {
  const std::lock_guard lock(all().mutex);
  bool may = true;
  for (auto& [stream, capture] : all().by_stream) {
    if (!forbids(capture)) continue;
    capture.status = kEnded;
    may = false;
  }
  return may;
}

bool fake_cuda::takes(const void* stream) {
  const std::lock_guard lock(all().mutex);
  const auto found = all().by_stream.find(stream);
  if (found == all().by_stream.end()) return false;
  ++found->second.nodes;
  return true;
}

#pragma GCC diagnostic ignored "-Wmissing-declarations"
extern "C" {
// NOLINTBEGIN(readability-identifier-naming): the driver's names

CudaResult cuThreadExchangeStreamCaptureMode(int* other) {
  std::swap(*other, mode);
  return kSuccess;
}
CudaResult cuStreamBeginCapture_v2(void* stream, int how) {
  const std::lock_guard lock(all().mutex);
  const bool is_new = all().by_stream.emplace(stream, Capture{.mode = how, .thread = gettid()}).second;
  return is_new && stream != nullptr ? kSuccess : kInvalidValue;
}
// The graph is how many nodes it has.
CudaResult cuStreamEndCapture(void* stream, void** graph) {
  const std::lock_guard lock(all().mutex);
  const auto found = all().by_stream.find(stream);
  if (found == all().by_stream.end()) return kInvalidValue;
  const Capture capture = found->second;
  if (capture.mode != kRelaxed && capture.thread != gettid()) return kWrongThread;
  all().by_stream.erase(found);
  *graph = reinterpret_cast<void*>(capture.nodes);
  return capture.status == kActive ? kSuccess : kInvalidated;
}
CudaResult cuStreamIsCapturing(const void* stream, int* status) {
  const std::lock_guard lock(all().mutex);
  const auto found = all().by_stream.find(stream);
  *status = found == all().by_stream.end() ? 0 : found->second.status;
  return kSuccess;
}

// NOLINTEND(readability-identifier-naming)
}  // extern "C"
