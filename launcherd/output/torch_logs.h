// The folders of `--log-layout torchrun`. Tools that read the logs of torchrun's agents find the same tree:
//
//   DIRECTORY/<run id>_<8 random characters>/attempt_<generation>/<local rank>/{stdout.log,stderr.log,error.json}
//
// Each host has a folder of its own in DIRECTORY, as torchrun's agents on a shared file system have. Local ranks of two
// hosts would share a folder otherwise. A host keeps its folder in later generations. The launcher writes all files.
//
// Owner: the owner of the job's sinks.
// Thread: one thread at a time. The loop thread calls begin() while no output of ranks is in flight.
// Errors: name the path and this host.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model/placement.h"

namespace muster::launcherd::inline output {

class TorchLogs {
 public:
  // Makes the folders of generation 0, and DIRECTORY if it does not exist.
  static base::Result<std::unique_ptr<TorchLogs>> create(std::string directory, std::string run_id,
                                                         const model::Placement& placement);

  // Sets the hosts and ranks of the next generation.
  void set_placement(const model::Placement& placement);
  // Makes the folders of a generation. Does nothing if that generation has begun already.
  base::Status begin(int generation);
  int generation() const { return generation_; }

  // Return the folder of a rank, and the folder of its generation on its host. Empty for ranks that the placement does
  // not have, such as spawned ones.
  std::string rank_folder(int rank) const;
  std::string generation_folder(int rank) const;
  int local_rank(int rank) const;  // -1 for such ranks
  std::vector<int> ranks() const;
  base::Status write_error_file(int rank, std::string_view content) const;

  // Returns the name and the folder of each host, in the order in which the job has used them.
  const std::vector<std::pair<std::string, std::string>>& hosts() const { return hosts_; }

 private:
  struct Place {
    std::size_t host = 0;  // index into hosts_
    int local_rank = 0;
  };
  TorchLogs(std::string directory, std::string run_id) : directory_(std::move(directory)), run_id_(std::move(run_id)) {}
  base::Result<std::size_t> host_at(const std::string& name);

  const std::string directory_;
  const std::string run_id_;
  int generation_ = -1;  // -1 until the first begin()
  model::Placement next_{};
  std::map<int, Place> places_;  // by rank
  std::vector<std::pair<std::string, std::string>> hosts_;
};

}  // namespace muster::launcherd::output
