// The input of this host's ranks: which of them get a pipe or a terminal, and what the launcher sends them.
//
// Loop thread only; owned by the agent. The lower half, one rank's descriptor, is agent/io/rank_input.h.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "agent/io/rank_input.h"
#include "agent/launch/spawn_request.h"
#include "agent/process/warden_events.h"
#include "base/loop.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

class RankInputs {
 public:
  // `tell` sends to the launcher what became of its input.
  RankInputs(base::Loop& loop, std::function<void(v1::InputTaken)> tell) : loop_(loop), tell_(std::move(tell)) {}

  // What the rank gets as stdin, for its start.
  void plan(const v1::LaunchRank& rank, SpawnRequest& request);
  bool has_terminal(int rank) const { return rank == terminal_rank_; }

  void started(RankStarted& started);  // takes its stdin_fd
  void over(int rank);

  // Ranks that have ended take nothing; the launcher hears of that by RankExited.
  void arrived(const v1::RankInput& message);
  // Before the start: how large the terminal will be.
  void resize(const v1::WindowSize& size);

 private:
  base::Loop& loop_;
  const std::function<void(v1::InputTaken)> tell_;
  std::map<int, std::unique_ptr<RankInput>> inputs_;  // of ranks that run
  int terminal_rank_ = -1;
  unsigned short rows_ = 24;
  unsigned short columns_ = 80;
};

}  // namespace muster::agent::job
