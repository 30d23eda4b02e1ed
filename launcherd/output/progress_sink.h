// ProgressSink notes whether ranks have printed lines that show progress (--progress-text).
// Owner and errors: as in output_sink.h.
// Thread: the hub's; take_progress() may be called by any thread.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "launcherd/output/forwarding_sink.h"

namespace muster::launcherd::inline output {

class ProgressSink final : public ForwardingSink {
 public:
  // A line that contains `text` shows progress. `text` is not empty. `next` is borrowed.
  ProgressSink(OutputSink* next, std::string text) : ForwardingSink(next), text_(std::move(text)) {}

  // Returns whether there was progress since the last call.
  bool take_progress() { return has_progress_.exchange(false); }

  base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override;

 private:
  const std::string text_;
  std::atomic<bool> has_progress_ = false;
};

}  // namespace muster::launcherd::output
