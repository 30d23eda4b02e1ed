// ActivitySink notes that ranks write output, for the watch on hangs (launcherd/run/hang_watch).
// Owner and errors: as in output_sink.h.
// Thread: the hub's; writes() may be called by any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "launcherd/output/forwarding_sink.h"

namespace muster::launcherd::inline output {

// Returns whether the bytes show that a rank goes on. Warnings of libmuster and Horovod about ranks that are late do
// not: both repeat them every minute while a job hangs.
bool shows_activity(proto::OutputStream stream, std::string_view bytes);

class ActivitySink final : public ForwardingSink {
 public:
  using ForwardingSink::ForwardingSink;

  // Counts the writes that show activity. Two equal results mean that there was none between the calls.
  std::uint64_t writes() const { return writes_.load(std::memory_order_relaxed); }

  base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override;

 private:
  std::atomic<std::uint64_t> writes_ = 0;
};

}  // namespace muster::launcherd::output
