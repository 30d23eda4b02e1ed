// CountingSink counts the bytes of output, for graphs (cli/view/job_scalars).
// Owner and errors: as in output_sink.h.
// Thread: the hub's; bytes() may be called by any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "launcherd/output/forwarding_sink.h"

namespace muster::launcherd::inline output {

class CountingSink final : public ForwardingSink {
 public:
  using ForwardingSink::ForwardingSink;

  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

  base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override {
    bytes_.fetch_add(bytes.size(), std::memory_order_relaxed);
    return ForwardingSink::write(rank, stream, bytes, flags);
  }

 private:
  std::atomic<std::uint64_t> bytes_ = 0;
};

}  // namespace muster::launcherd::output
