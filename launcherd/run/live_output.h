// Labels output by the ranks of the present generation (docs/adr/0044). Agents name a process by its number, which
// stays; users see its rank, which changes.
//
// Owner: JobRunner's core, for longer than the agents.
// Thread: the hub's thread writes. The loop thread calls set_ranks().
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "launcherd/output/output_sink.h"

namespace muster::launcherd::inline run {

class LiveOutput final : public OutputSink {
 public:
  // `next` is borrowed.
  explicit LiveOutput(OutputSink* next) : next_(next) {}

  // Sets the ranks of processes, by number. A process without an entry keeps the rank that it had; at first its number
  // is its rank.
  void set_ranks(const std::map<int, int>& ranks);

  base::Status write(int number, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override {
    return next_->write(rank_of(number), stream, bytes, flags);
  }
  base::Status end_rank(int number) override { return next_->end_rank(rank_of(number)); }
  void begin_attempt(int attempt) override { next_->begin_attempt(attempt); }
  void frame(int agent, std::uint64_t sequence) override { next_->frame(agent, sequence); }
  base::Status lost(std::uint64_t bytes, const std::string& host) override { return next_->lost(bytes, host); }
  base::Status end_agent(int agent) override { return next_->end_agent(agent); }
  base::Status flush() override { return next_->flush(); }

 private:
  int rank_of(int number) const;

  OutputSink* const next_;
  mutable std::mutex mutex_;
  std::map<int, int> ranks_;  // by number; guarded by mutex_
};

}  // namespace muster::launcherd::run
