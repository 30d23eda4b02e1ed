// A running muster-pmix: our child, of the same user, not of the job. Ends with this object, with the agent, or with
// its socket.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::pmix {

class HelperProcess {
 public:
  // From memory: nothing is written to a disk. `environment`: of the ranks; what it has for libpmix is left out but for
  // where libraries are. UNIMPLEMENTED: this build has no helper.
  static base::Result<HelperProcess> start(const std::vector<std::string>& environment, const std::string& directory,
                                           bool verbose);
  HelperProcess() = default;
  ~HelperProcess() { end(); }
  HelperProcess(HelperProcess&& other) noexcept;
  HelperProcess& operator=(HelperProcess&& other) noexcept;

  pid_t pid() const { return pid_; }  // 0: none
  base::UniqueFd take_socket() { return std::move(socket_); }
  void end();  // kills and reaps
  // It has closed its socket: how it ended, for a sentence ("was ended by signal 9").
  std::string reap();

 private:
  pid_t pid_ = 0;
  base::UniqueFd socket_;
};

}  // namespace muster::agent::pmix
