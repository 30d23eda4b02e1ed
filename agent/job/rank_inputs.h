// The stdin of this host's ranks. It decides which ranks get a pipe or a terminal, and passes on the launcher's input.
//
// Owner: the job's session.
// Thread: the loop thread only.
// The lower half, which writes to one rank's descriptor, is agent/io/rank_input.h.
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
  // `report` sends the launcher how much of its input a rank has read.
  RankInputs(base::Loop& loop, std::function<void(v1::InputTaken)> report) : loop_(loop), report_(std::move(report)) {}

  // Sets what the rank gets as stdin. Call it before the start.
  void plan(const v1::LaunchRank& rank, SpawnRequest& request);
  bool has_terminal(int rank) const { return rank == terminal_rank_; }

  void started(RankStarted& started);  // takes its stdin_fd
  void over(int rank);

  // Input for ranks that have ended is dropped. The launcher learns of their end from RankExited.
  void arrived(const v1::RankInput& message);
  // Sets the size of the terminal, also before it exists.
  void resize(const v1::WindowSize& size);

 private:
  base::Loop& loop_;
  const std::function<void(v1::InputTaken)> report_;
  std::map<int, std::unique_ptr<RankInput>> inputs_;  // by rank, of ranks that run
  int terminal_rank_ = -1;
  unsigned short rows_ = 24;
  unsigned short columns_ = 80;
};

}  // namespace muster::agent::job
