// The numbered messages of an agent that its launcher has not acknowledged. The agent keeps them, and sends them again
// after a cut.
//
// Limits: the numbers of ranks, of jobs and of the launcher's questions bound most messages. Lines for the user
// (Notice) have no such bound, so the agent drops them while too much waits. A later line reports how many were
// dropped.
//
// Thread: the loop thread only. Pure values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
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

  // Gives the message its number. The result is valid until the next call. nullptr if the message was dropped.
  const v1::AgentMessage* push(v1::AgentMessage message);
  // Returns a Notice for each job whose lines were dropped, once there is room again. Push these before the next
  // message.
  std::vector<v1::AgentMessage> take_drop_notices();
  void acknowledged(std::uint64_t sequence);

  std::uint64_t last_acknowledged() const { return queue_.last_acknowledged(); }
  const std::list<v1::AgentMessage>& pending() const { return queue_.pending(); }

 private:
  bool is_full() const { return bytes_ >= most_waiting_; }

  std::size_t most_waiting_;
  proto::ReplayQueue<v1::AgentMessage> queue_;
  std::deque<std::size_t> sizes_;                 // in bytes, of each message of pending()
  std::size_t bytes_ = 0;                         // the sum of sizes_
  std::map<std::string, std::uint64_t> dropped_;  // number of lines, by job
};

}  // namespace muster::agent::link
