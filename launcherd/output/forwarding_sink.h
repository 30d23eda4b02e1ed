// ForwardingSink passes all calls on to another sink. Sinks that change or watch some of the calls derive from it.
// Owner, thread and errors: as in output_sink.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "launcherd/output/output_sink.h"

namespace muster::launcherd::inline output {

class ForwardingSink : public OutputSink {
 public:
  // `next` is borrowed.
  explicit ForwardingSink(OutputSink* next) : next_(next) {}

  base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override {
    return next_->write(rank, stream, bytes, flags);
  }
  base::Status end_rank(int rank) override { return next_->end_rank(rank); }
  void begin_attempt(int attempt) override { next_->begin_attempt(attempt); }
  void frame(int agent, std::uint64_t sequence) override { next_->frame(agent, sequence); }
  base::Status lost(std::uint64_t bytes, const std::string& host) override { return next_->lost(bytes, host); }
  base::Status end_agent(int agent) override { return next_->end_agent(agent); }
  base::Status finish() override { return next_->finish(); }
  base::Status flush() override { return next_->flush(); }

 private:
  OutputSink* const next_;
};

}  // namespace muster::launcherd::output
