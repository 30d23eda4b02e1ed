// Files that a site's launcher reads on a file system that all hosts share: the agent program, and a wave's join file.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "launcherd/bootstrap/agent_image.h"
#include "proto/join_file.h"

namespace muster::launcherd::inline enrol {

// Owns a file: the destructor removes it.
class OwnedFile {
 public:
  OwnedFile() = default;
  ~OwnedFile() { remove(); }
  OwnedFile(OwnedFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  OwnedFile& operator=(OwnedFile&& other) noexcept;

  // Creates the file with mode 0600. Never follows a link.
  static base::Result<OwnedFile> write(const std::string& path, std::string_view content);
  const std::string& path() const { return path_; }
  void remove();

 private:
  std::string path_;  // empty means no file
};

// Returns the path of `agent_dir` on this host. `agent_dir` is as in BootstrapOptions; `home` replaces "~".
base::Result<std::string> site_directory(const std::string& agent_dir, const std::string& home);

// Stores the agent in `directory` if it is missing there, and returns its path. Accepts an existing file only if this
// user owns it. Also removes expired join files that killed launchers left there.
// PERMISSION_DENIED: another user could replace the agent (base/trusted_folder.h).
base::Result<std::string> place_agent(const std::string& directory, const std::string& agent_id,
                                      const AgentImage& image);

// Return the contents of a join file: this user's variables, and the launcher's addresses.
std::vector<std::pair<std::string, std::string>> join_variables(const std::string& home, const std::string& user);
base::Result<std::vector<base::IpAddress>> join_addresses();

}  // namespace muster::launcherd::enrol
