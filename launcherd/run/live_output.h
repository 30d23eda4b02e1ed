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

  // Sets the ranks of the present generation, by the numbers of its processes. The first call names those of
  // generation 0. A process without an entry keeps the rank that it had. If another process has that rank now, each
  // late line of the process begins with a mark, and its end does not end the output of the rank.
  void set_ranks(const std::map<int, int>& ranks);
  // Adds processes that start now. The others are still in the present generation.
  void add_ranks(const std::map<int, int>& ranks);

  base::Status write(int number, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override;
  base::Status end_rank(int number) override;

 private:
  struct Label {
    int rank = 0;
    bool has_left = false;  // another process has the rank
  };

  Label label_of(int number) const;

  mutable std::mutex mutex_;
  std::map<int, Label> labels_;  // by number; guarded by mutex_
};

}  // namespace muster::launcherd::run
