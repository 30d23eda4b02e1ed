// Reads what the ssh configuration says about one host, as far as libssh can use it. It also finds settings that need
// the `ssh` program. Pure: it reads files through SshConfigFiles.
//
// The reader is conservative. It sets `needs_ssh` for an unknown keyword in a matching block, for every Match line, and
// for every line that it cannot parse. A keyword is known if it is supported or stands in the lists of ssh_config.cc.
// The order is that of OpenSSH: the first value wins, the user's file precedes the system's file, and Include takes
// effect where it stands.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::launcherd::inline ssh {

struct SshConfigFiles {
  // `read` returns a file's content, or nullopt if it does not exist. `glob` returns the sorted files that match a
  // pattern with wildcards.
  std::function<std::optional<std::string>(const std::string& path)> read;
  std::function<std::vector<std::string>(const std::string& pattern)> glob;
};

struct SshConfigQuery {
  std::string host;        // as the user wrote it, because Host patterns match this spelling
  std::string user;        // empty if the user gave none
  std::string local_user;  // replaces %u
  std::string home;        // replaces ~ and %d
  std::string user_file;   // ~/.ssh/config; empty means no file
  std::string system_file;
};

enum class StrictHostKeys { kUnset, kAsk, kAcceptNew, kYes, kNo };

struct SshHostConfig {
  std::string host_name;                    // the name to connect to; the host itself if not configured
  std::string user;                         // empty if not configured
  int port = 0;                             // 0 if not configured
  std::vector<std::string> identity_files;  // expanded paths; empty means the defaults
  bool identities_only = false;
  std::vector<std::string> user_known_hosts;    // expanded paths; empty means the defaults
  std::vector<std::string> global_known_hosts;  // expanded paths; empty means the defaults
  StrictHostKeys strict = StrictHostKeys::kUnset;
  bool is_strict_conditional = false;  // a Match block sets StrictHostKeyChecking, so do not override it
  bool hash_known_hosts = false;
  std::string needs_ssh;  // why the `ssh` program is needed; empty means that libssh suffices
};

SshHostConfig read_ssh_config(const SshConfigQuery& query, const SshConfigFiles& files);

// Matches the patterns of a Host line. They may contain `*`, `?` and a leading `!`.
bool matches_host_patterns(std::string_view host, const std::vector<std::string>& patterns);

}  // namespace muster::launcherd::ssh
