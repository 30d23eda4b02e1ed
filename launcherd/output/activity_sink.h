// ActivitySink notes that ranks write output, for the watch on hangs (launcherd/run/hang_watch).
// Owner and errors: as in output_sink.h.
// Thread: the hub's; writes() may be called by any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "launcherd/output/forwarding_sink.h"

namespace muster::launcherd::inline output {

class ActivitySink final : public ForwardingSink {
 public:
  using ForwardingSink::ForwardingSink;

  // Counts the writes. Two equal results mean that no rank has written between the calls.
  std::uint64_t writes() const { return writes_.load(std::memory_order_relaxed); }

  base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override {
    // One thread writes, so no other can change the number in between.
    writes_.store(writes_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return ForwardingSink::write(rank, stream, bytes, flags);
  }

 private:
  std::atomic<std::uint64_t> writes_ = 0;
};

}  // namespace muster::launcherd::output
