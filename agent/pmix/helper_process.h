// A running muster-pmix: a child of this process, of the same user, and not of the job. It ends with this object,
// with the agent, or when its socket closes.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::pmix {

class HelperProcess {
 public:
  // Starts muster-pmix from memory; nothing is written to a disk. `environment` is the ranks' environment. The helper
  // gets only LD_LIBRARY_PATH, PATH, HOME and LANG of it, and no settings for libpmix.
  // UNIMPLEMENTED: this build has no helper.
  static base::Result<HelperProcess> start(const std::vector<std::string>& environment, const std::string& directory,
                                           bool verbose);
  HelperProcess() = default;
  ~HelperProcess() { end(); }
  HelperProcess(HelperProcess&& other) noexcept;
  HelperProcess& operator=(HelperProcess&& other) noexcept;

  pid_t pid() const { return pid_; }  // 0 if there is none
  base::UniqueFd take_socket() { return std::move(socket_); }
  void end();  // kills and reaps it
  // Call it when the helper has closed its socket. Returns how it ended, as part of a sentence ("was ended by signal
  // 9").
  std::string reap();

 private:
  pid_t pid_ = 0;
  base::UniqueFd socket_;
};

}  // namespace muster::agent::pmix
