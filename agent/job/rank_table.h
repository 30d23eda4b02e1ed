// The file that tells programs where all ranks of their job are. MUSTER_RANK_TABLE names it (docs/guide/into-a-job.md).
//
// Owner: SessionRanks.
// Thread: the loop thread only. Writing a file may block.
#pragma once

#include <string>
#include <vector>

#include "agent/launch/spawn_request.h"
#include "base/status.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

// Returns the table as text: a line with the names of the columns, then one line a rank, in the order of the ranks.
// Columns are separated by tabs. Pure.
std::string rank_table_text(const v1::RankTable& table);

class RankTable {
 public:
  // Names the file of this session. Call it once, before apply().
  void open(const std::string& session_dir) { path_ = session_dir + "/rank_table"; }
  // Replaces the file as a whole, so that a program never reads a part of it. On an error it removes the file, so that
  // no program reads the hosts of an earlier generation.
  base::Status write(const v1::RankTable& table);
  // Gives the ranks the variable. Does nothing if no table was written.
  void apply(std::vector<SpawnRequest>& requests) const;
  // The names of the variables that apply() sets.
  std::vector<std::string> variable_names() const;

 private:
  std::string path_;
  bool is_written_ = false;
};

}  // namespace muster::agent::job
