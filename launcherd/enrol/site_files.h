// What a site's launcher finds on a file system that all hosts share: the agent program, and the join file of a wave.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "launcherd/bootstrap/agent_image.h"
#include "proto/join_file.h"

namespace muster::launcherd::inline enrol {

// A file that is gone with this object.
class OwnedFile {
 public:
  OwnedFile() = default;
  ~OwnedFile() { remove(); }
  OwnedFile(OwnedFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  OwnedFile& operator=(OwnedFile&& other) noexcept;

  // Made anew with mode 0600; never through a link.
  static base::Result<OwnedFile> write(const std::string& path, std::string_view content);
  const std::string& path() const { return path_; }
  void remove();

 private:
  std::string path_;  // empty: none
};

// `agent_dir` as in BootstrapOptions, with `home` for "~/". Its path on this host.
base::Result<std::string> site_directory(const std::string& agent_dir, const std::string& home);

// Puts the agent there unless it is there, and returns its path. Only a file of ours is taken for it.
// PERMISSION_DENIED: another user could exchange it (base/trusted_folder.h). Also removes join files there whose time
// is over: those of launchers that were killed.
base::Result<std::string> place_agent(const std::string& directory, const std::string& agent_id,
                                      const AgentImage& image);

// This user's variables that travel in a join file, and the launcher's addresses.
std::vector<std::pair<std::string, std::string>> join_variables(const std::string& home, const std::string& user);
base::Result<std::vector<base::IpAddress>> join_addresses();

}  // namespace muster::launcherd::enrol
