// What the ssh configuration says about one host, as far as the libssh back end honours it, and whether something in it
// needs the `ssh` program. Pure: files come through SshConfigFiles.
//
// Conservative: a keyword of a matching block that is neither honoured nor known to be without effect here (a list, see
// ssh_config.cc), every Match line, and what cannot be parsed set `needs_ssh`. As in OpenSSH, the first value wins, the
// user's file comes before the system's, and Include is followed where it stands.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::launcherd::inline ssh {

struct SshConfigFiles {
  // Content of a file, or nullopt if it does not exist; files that match a pattern with wildcards, sorted.
  std::function<std::optional<std::string>(const std::string& path)> read;
  std::function<std::vector<std::string>(const std::string& pattern)> glob;
};

struct SshConfigQuery {
  std::string host;        // as the user wrote it: Host patterns are about this
  std::string user;        // if given, else empty
  std::string local_user;  // for %u
  std::string home;        // for ~ and %d
  std::string user_file;   // ~/.ssh/config; empty: none
  std::string system_file;
};

enum class StrictHostKeys { kUnset, kAsk, kAcceptNew, kYes, kNo };

struct SshHostConfig {
  std::string host_name;                    // what to connect to; the host itself if not configured
  std::string user;                         // empty: not configured
  int port = 0;                             // 0: not configured
  std::vector<std::string> identity_files;  // expanded; empty: the defaults
  bool identities_only = false;
  std::vector<std::string> user_known_hosts;    // expanded; empty: the defaults
  std::vector<std::string> global_known_hosts;  // likewise
  StrictHostKeys strict = StrictHostKeys::kUnset;
  bool is_strict_conditional = false;  // a Match block sets StrictHostKeyChecking: it must not be overridden
  bool hash_known_hosts = false;
  std::string needs_ssh;  // why; empty: libssh will do
};

SshHostConfig read_ssh_config(const SshConfigQuery& query, const SshConfigFiles& files);

// The patterns of a Host line: `*`, `?`, a leading `!`.
bool matches_host_patterns(std::string_view host, const std::vector<std::string>& patterns);

}  // namespace muster::launcherd::ssh
