// The numbered messages of an agent that its launcher has not acknowledged: kept until it does, and told again after a
// cut. What ranks and jobs do is bounded by their number, and answers by what the launcher asks. Lines for the user
// (Notice) are bounded by nothing else, so they are left out while too much waits. A line says later how many.
//
// Pure values; loop thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "proto/muster/v1/agent.pb.h"
#include "proto/replay_queue.h"

namespace muster::agent::inline link {

class OutgoingMessages {
 public:
  static constexpr std::size_t kMostWaiting = std::size_t{4} << 20;  // bytes; about 20,000 lines

  explicit OutgoingMessages(std::size_t most_waiting = kMostWaiting) : most_waiting_(most_waiting) {}

  // Numbers it; valid until the next call. nullptr: left out.
  const v1::AgentMessage* push(v1::AgentMessage message);
  // To be pushed before the next message: a Notice for each job of which some were left out, once there is room again.
  std::vector<v1::AgentMessage> take_left_out();
  void acknowledged(std::uint64_t sequence);

  std::uint64_t last_acknowledged() const { return queue_.last_acknowledged(); }
  const std::deque<v1::AgentMessage>& pending() const { return queue_.pending(); }

 private:
  bool is_full() const { return bytes_ >= most_waiting_; }

  std::size_t most_waiting_;
  proto::ReplayQueue<v1::AgentMessage> queue_;
  std::deque<std::size_t> sizes_;                  // of pending()
  std::size_t bytes_ = 0;                          // all of sizes_
  std::map<std::string, std::uint64_t> left_out_;  // by job
};

}  // namespace muster::agent::link
