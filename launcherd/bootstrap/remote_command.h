// Builds paths and commands for a host so that sh, bash, csh and fish parse them alike. Pure functions.
//
// check_target_names() and check_agent_args() limit every variable part to safe characters, so no part needs quotes.
// All four shells expand "~/" at the beginning of a word.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace muster::launcherd::inline bootstrap {

struct RemotePaths {
  std::string directory;  // "~/.cache/muster" or absolute
  std::string agent;      // directory/agent-<id>-<arch>
  std::string temporary;  // directory/.agent-<id>-<arch>.<random>
  // True if the user chose the directory, because other users may be able to write to it (/tmp). The shell then runs
  // only a plain file of this user. No other user may be able to replace that file or a folder on the way to it.
  // Otherwise the shell prints kUnsafeFolderWords.
  bool must_be_ours = false;
  // Id of the surrounding PBS job. Programs join that job by pbs_attach, if the host has that program. PBS then
  // accounts and ends the programs.
  std::string pbs_job = {};
};

// True if `id` has the form of a PBS job id: "123[4].server".
bool is_pbs_job(std::string_view id);

base::Result<RemotePaths> remote_paths(std::string_view agent_dir, std::string_view agent_id, std::string_view arch,
                                       std::string_view random);

// Checks that `name` is a host name or address literal that no program can take for an option. Checks `user` in the
// same way if it is not empty. Errors: INVALID_ARGUMENT.
base::Status check_target_names(std::string_view name, std::string_view user);
base::Status check_agent_args(const std::vector<std::string>& args);

// The line about an unsafe folder begins with these words. The exit status is then 126.
inline constexpr std::string_view kUnsafeFolderWords = "muster: unsafe folder:";

// Returns the command `exec AGENT ARGS…`.
std::string cached_command(const RemotePaths& paths, const std::vector<std::string>& args);
// Returns the command `exec TEMPORARY --install SHA AGENT ARGS…`.
std::string install_command(const RemotePaths& paths, std::string_view sha256, const std::vector<std::string>& args);
// Receives muster-unpack on stdin as TEMPORARY, then runs it with the agent's file name and ARGS. It first writes a
// line: kStepMarker, "send " and the output of `uname -sm`. If TEMPORARY of another host, `shared`, or AGENT exists, it
// writes kStepMarker and "shared" and ends. So hosts with one file system receive the agent once.
struct PackedCommand {
  std::uint64_t unpacker_size = 0;
  std::string shared = {};             // empty: do not look for it
  bool stops_if_there_is_one = false;  // true: look for AGENT
};
std::string packed_command(const RemotePaths& paths, const PackedCommand& packed, const std::vector<std::string>& args);
inline constexpr std::string_view kStepMarker = "MUSTER-STEP ";

std::string remove_command(const RemotePaths& paths);
// The first echo ends a line of noise that may lack its newline.
inline constexpr std::string_view kUnameCommand = "echo; uname -sm";

// Finds "Linux x86_64" in the output of kUnameCommand, after the noise of the shell. Both fields are empty if not
// found.
struct RemoteSystem {
  std::string os;
  std::string arch;
};
RemoteSystem parse_uname(std::string_view output);

// Converts a path for SFTP, whose paths are relative to the home directory.
std::string sftp_path(std::string_view path);

}  // namespace muster::launcherd::bootstrap
