// Paths and commands on a host, spelt so that sh, bash, csh and fish read them alike. Pure functions.
//
// Every variable part is of a safe alphabet (checked by check_names), so nothing needs quoting; "~/" at the beginning
// of a word is expanded by all four shells.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace muster::launcherd::inline bootstrap {

struct RemotePaths {
  std::string directory;  // "~/.cache/muster" or absolute
  std::string agent;      // directory/agent-<id>-<arch>
  std::string temporary;  // directory/.agent-<id>-<arch>.<random>
  // A directory of the user's choice may be one that others can write to (/tmp): then only a plain file of our own is
  // run, and only if no other user can exchange it or a folder on the way to it. Else the shell says
  // kUnsafeFolderWords.
  bool must_be_ours = false;
  // Of the PBS job around us: what is started joins it first where pbs_attach is there, so that PBS counts and ends it.
  std::string pbs_job = {};
};

// Whether pbs_job may be this: a job's id as PBS writes it, "123[4].server".
bool is_pbs_job(std::string_view id);

base::Result<RemotePaths> remote_paths(std::string_view agent_dir, std::string_view agent_id, std::string_view arch,
                                       std::string_view random);

// INVALID_ARGUMENT unless `name` is a host name or address literal that can never be taken for an option, and `user`
// (if not empty) likewise.
base::Status check_target_names(std::string_view name, std::string_view user);
base::Status check_agent_args(const std::vector<std::string>& args);

// How the line begins that names the folder, with exit status 126.
inline constexpr std::string_view kUnsafeFolderWords = "muster: unsafe folder:";

// `exec AGENT ARGS…`
std::string cached_command(const RemotePaths& paths, const std::vector<std::string>& args);
// `exec TEMPORARY --install SHA AGENT ARGS…`
std::string install_command(const RemotePaths& paths, std::string_view sha256, const std::vector<std::string>& args);
// Receives the agent on stdin; exit status 0 only if all `size` bytes arrived.
std::string receive_command(const RemotePaths& paths, std::size_t size);
std::string remove_command(const RemotePaths& paths);
inline constexpr std::string_view kUnameCommand = "echo; uname -sm";  // noise may lack its last newline

// "Linux x86_64" in the output of kUnameCommand, after whatever a noisy shell printed; empty if there is none.
struct RemoteSystem {
  std::string os;
  std::string arch;
};
RemoteSystem parse_uname(std::string_view output);

// For SFTP, whose paths are relative to the home directory.
std::string sftp_path(std::string_view path);

}  // namespace muster::launcherd::bootstrap
