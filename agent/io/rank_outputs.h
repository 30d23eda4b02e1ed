// The output pipes of all ranks of a host. A rank stays here from its start until all its output, and its end, are
// framed in the ring.
//
// Owner and thread: the sender's thread. It never blocks. It reads nothing while the ring is full.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "agent/io/frame_ring.h"
#include "agent/io/last_output.h"
#include "agent/io/output_sender.h"
#include "agent/io/rank_pipe.h"
#include "base/clock.h"
#include "base/unique_fd.h"

namespace muster::agent::inline io {

class RankOutputs {
 public:
  // The three arguments are borrowed and outlive this object. It calls on_stderr_tail and on_ended of `events`.
  RankOutputs(const OutputSenderConfig* config, const OutputSenderEvents* events, FrameRing* ring);
  ~RankOutputs();
  RankOutputs(const RankOutputs&) = delete;
  RankOutputs& operator=(const RankOutputs&) = delete;

  bool valid() const { return pipes_.valid(); }  // false if no descriptor was free; errno says why
  int fd() const { return pipes_.get(); }        // readable if read_ready() has something to read

  // These do the work of OutputSender's add_rank() and rank_exited().
  void add(int number, base::UniqueFd stdout_fd, base::UniqueFd stderr_fd, RankPipe::Cut cut);
  void exited(int number);

  // Reads each ready pipe once. Calls `send` whenever much has come, while it is still in the cache.
  void read_ready(const std::function<void()>& send);
  // Do not read before this time. If the last round brought only few bytes, this time is in the future, so that more
  // bytes can arrive.
  base::MonotonicTime gathers_until() const { return gathers_until_; }
  // Does what depends on time: sends unfinished lines that have waited long enough, and reads what dead ranks left.
  // Returns when it must be called again. MonotonicTime::max() means that only events matter.
  base::MonotonicTime settle();

  bool is_ring_full() const { return is_ring_full_; }
  void ring_has_room() { is_ring_full_ = false; }

  // Returns true if no rank has written anything and nothing must be sent to the launcher yet.
  bool is_silent() const { return config_->only_if_any && ring_->bytes_committed() == 0; }
  // Returns the last output of each rank that has written something and whose output has not ended.
  std::map<int, LastOutput> last_outputs() const;
  bool have_ended() const { return ranks_.empty(); }
  bool are_ends_framed() const { return silent_.empty(); }
  std::size_t count() const { return ranks_.size(); }  // number of ranks that have not ended

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
  // The ends of ranks that are not yet in `ring_`. They stay here until a rank writes output.
  std::vector<RankOutputEnd> silent_;
  base::UniqueFd pipes_;  // an epoll over all pipes
  bool is_ring_full_ = false;
  base::MonotonicTime gathers_until_{};
  base::MonotonicTime due_{};
};

}  // namespace muster::agent::io
