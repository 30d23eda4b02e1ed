// The state file of a pool (proto PoolState; secret, mode 0600): the pool's id, ports and agents.
//
// Owner: PoolParts (pool_parts.h). The roster and the loop must outlive it.
// Thread: loop thread only.
// Errors: DATA_LOSS if the file is corrupt; otherwise those of read_file() and write_file_durably().
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "base/gate.h"
#include "base/loop.h"
#include "base/status.h"
#include "launcherd/agents/pool_roster.h"
#include "proto/muster/v1/pool.pb.h"

namespace muster::launcherd::inline agents {

class PoolFile {
 public:
  PoolFile(base::Loop& loop, std::string path, const PoolRoster& roster)
      : loop_(loop), path_(std::move(path)), roster_(roster) {}

  // Reads the file, or begins a new state if there is no file. Call it once, before all others.
  base::Status load();
  // Writes the file with all agents of the roster.
  base::Status save();
  // Saves once for all changes of this turn of the loop, because each save writes the list of all agents.
  void save_soon(std::function<void(const base::Status&)> on_error);
  // Saves now if save_soon() has not saved yet.
  base::Status save_if_due() { return is_due_ ? save() : base::ok_status(); }

  const std::string& path() const { return path_; }
  // Returns the state file's content, without this launcherd's own agents. The listed agents are those of the
  // last launcherd, until the pool clears the list.
  v1::PoolState& state() { return state_; }

 private:
  base::Loop& loop_;
  const std::string path_;
  const PoolRoster& roster_;
  v1::PoolState state_;
  bool is_due_ = false;
  base::Gate gate_;
};

}  // namespace muster::launcherd::agents
