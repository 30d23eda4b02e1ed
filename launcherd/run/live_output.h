// Labels output by the ranks of the present generation (docs/adr/0044). Agents name a process by its number, which
// stays; users see its rank, which changes.
//
// Owner: JobRunner's core, for longer than the agents.
// Thread: the hub's thread writes. The loop thread calls set_ranks().
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "launcherd/output/forwarding_sink.h"

namespace muster::launcherd::inline run {

class LiveOutput final : public ForwardingSink {
 public:
  // `next` is borrowed.
  explicit LiveOutput(OutputSink* next) : ForwardingSink(next) {}

  // Sets the ranks of processes, by number. A process without an entry keeps the rank that it had; at first its number
  // is its rank.
  void set_ranks(const std::map<int, int>& ranks);

  base::Status write(int number, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override {
    return ForwardingSink::write(rank_of(number), stream, bytes, flags);
  }
  base::Status end_rank(int number) override { return ForwardingSink::end_rank(rank_of(number)); }

 private:
  int rank_of(int number) const;

  mutable std::mutex mutex_;
  std::map<int, int> ranks_;  // by number; guarded by mutex_
};

}  // namespace muster::launcherd::run
