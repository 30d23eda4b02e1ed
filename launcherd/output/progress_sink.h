// ProgressSink notes whether ranks have printed lines that show progress: --progress-text. It passes all output on.
// Owner and errors: as in output_sink.h.
// Thread: the hub's; take_progress() may be called by any thread.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "launcherd/output/output_sink.h"

namespace muster::launcherd::inline output {

class ProgressSink final : public OutputSink {
 public:
  // A line that contains `text` shows progress. `text` is not empty. `next` is borrowed.
  ProgressSink(OutputSink* next, std::string text) : next_(next), text_(std::move(text)) {}

  // Returns whether there was progress since the last call.
  bool take_progress() { return has_progress_.exchange(false); }

  base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override;
  base::Status end_rank(int rank) override { return next_->end_rank(rank); }
  void begin_attempt(int attempt) override { next_->begin_attempt(attempt); }
  void frame(int agent, std::uint64_t sequence) override { next_->frame(agent, sequence); }
  base::Status lost(std::uint64_t bytes, const std::string& host) override { return next_->lost(bytes, host); }
  base::Status end_agent(int agent) override { return next_->end_agent(agent); }
  base::Status flush() override { return next_->flush(); }

 private:
  OutputSink* const next_;
  const std::string text_;
  std::atomic<bool> has_progress_ = false;
};

}  // namespace muster::launcherd::output
