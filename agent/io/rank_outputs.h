// The output pipes of all ranks of a host, from a rank's start until all that it said, and that it has ended, is framed
// in the ring.
//
// Owned and called by the sender's thread; never blocks. It reads nothing while the ring is full.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "agent/io/frame_ring.h"
#include "agent/io/output_sender.h"
#include "agent/io/rank_pipe.h"
#include "base/clock.h"
#include "base/unique_fd.h"

namespace muster::agent::inline io {

class RankOutputs {
 public:
  // All are borrowed and outlive it; of `events` on_stderr_tail and on_ended are called.
  RankOutputs(const OutputSenderConfig* config, const OutputSenderEvents* events, FrameRing* ring);
  ~RankOutputs();
  RankOutputs(const RankOutputs&) = delete;
  RankOutputs& operator=(const RankOutputs&) = delete;

  bool valid() const { return pipes_.valid(); }  // false: no descriptor was to be had, as errno says
  int fd() const { return pipes_.get(); }        // readable when read_ready() has something to read

  // See OutputSender.
  void add(int number, base::UniqueFd stdout_fd, base::UniqueFd stderr_fd, RankPipe::Cut cut);
  void exited(int number);

  // Reads each pipe that is ready once. Calls `send` when much has come, while it is still in the cache.
  void read_ready(const std::function<void()>& send);
  // So little came that more should arrive before the next read.
  base::MonotonicTime gathers_until() const { return gathers_until_; }
  // What time brings: unfinished lines that have waited enough, and what dead ranks left. Returns when it must be
  // called again, MonotonicTime::max() where only events count.
  base::MonotonicTime settle();

  bool is_ring_full() const { return is_ring_full_; }
  void ring_has_room() { is_ring_full_ = false; }

  // Nobody has written anything, and this is to be kept from the launcher.
  bool is_silent() const { return config_->only_if_any && ring_->bytes_committed() == 0; }
  bool have_ended() const { return ranks_.empty(); }
  bool are_ends_framed() const { return silent_.empty(); }
  std::size_t count() const { return ranks_.size(); }  // of those that have not ended

 private:
  struct Rank;

  void settle_pipe(const Rank& rank, RankPipe* pipe);
  bool settle_rank(Rank* rank);
  bool frame_end(const RankOutputEnd& end);
  void wake_at(base::MonotonicTime time) { due_ = std::min(due_, time); }

  const OutputSenderConfig* const config_;
  const OutputSenderEvents* const events_;
  FrameRing* const ring_;
  CarryBudget carry_;
  std::map<int, std::unique_ptr<Rank>> ranks_;
  std::vector<RankOutputEnd> silent_;  // have ended, and nothing of it is framed as long as nobody has written anything
  base::UniqueFd pipes_;               // epoll over all of them
  bool is_ring_full_ = false;
  base::MonotonicTime gathers_until_{};
  base::MonotonicTime due_{};
};

}  // namespace muster::agent::io
