// Paths and commands for a host, and the checks of their parts.
// Read cached_command and install_command first, then run_checked, then checking_the_folder.
#include "launcherd/bootstrap/remote_command.h"

#include <algorithm>

#include "base/net.h"
#include "base/strings.h"

namespace muster::launcherd::inline bootstrap {
namespace {

bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool all_of(std::string_view text, std::string_view extra) {
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_alnum(c) || extra.find(c) != std::string_view::npos; });
}

bool is_host_name(std::string_view name) {
  return !name.empty() && name.size() <= 253 && (is_alnum(name.front()) || name.front() == '_') && all_of(name, "._-");
}

std::string with_args(std::string command, const std::vector<std::string>& args) {
  for (const std::string& arg : args) command += " " + arg;
  return command;
}

std::string name_in(const std::string& directory, const std::string& path) {
  return path.substr(directory.size() + 1);
}

// Applies the rule of base/trusted_folder.h in sh. No other user may be able to replace the program, its folder $p, or
// a folder on the way to $p. The program must be a plain file of this user in $p. The login shell sees the script in
// single quotes. The script runs the program by its real path. `ls -ldn` prints mode, number of links, owner and group.
//   $u our uid
//   $p the folder without links
//   $d the folder that is being checked
//   $s the folder below $d if it belongs to another user, else empty
std::string checking_the_folder(const std::string& directory, const std::string& program) {
  return fmt::format(
      "no() {{ echo \"{2} $1\" >&2; exit 126; }}; u=$(id -u); s=; "
      "p=$(cd {0} 2>/dev/null && pwd -P) || {{ echo {0}/{1}: not found >&2; exit 127; }}; d=$p; "
      "while set -- $(ls -ldn \"$d\"); do case $1 in "
      "????????w[tT]*) test -z \"$s\" || no \"$s belongs to another user\";; "
      "????????w*) no \"every user may write into $d\";; "
      "?????????[tT]*) ;; "
      "?????w*) test \"$d\" != \"$p\" || test \"$4\" = \"$u\" || no \"its group may write into $d\";; esac; "
      "s=; case $3 in 0|$u) ;; *) s=$d;; esac; "
      "test -z \"$s\" || test \"$d\" != \"$p\" || no \"$d belongs to another user\"; "
      "test \"$d\" != / || break; d=$(dirname \"$d\"); done; "
      "a=$p/{1}; test -f \"$a\" && test -O \"$a\" && test ! -L \"$a\" || {{ echo {0}/{1}: not found >&2; exit 127; "
      "}}; ",
      directory, program, kUnsafeFolderWords);
}

std::string in_the_job(const RemotePaths& paths) {
  if (paths.pbs_job.empty()) return "";
  return fmt::format("if command -v pbs_attach >/dev/null 2>&1; then pbs_attach -j \"{}\" -p $$ >&2; fi; ",
                     paths.pbs_job);
}

// The login shell sees the command in single quotes, sh sees it in double quotes. On a host outside the PBS job the
// program runs without pbs_attach. `then` holds the program's arguments.
std::string run_checked(const RemotePaths& paths, const std::string& program, const std::string& then) {
  if (paths.must_be_ours) {
    const std::string name = name_in(paths.directory, program);
    return fmt::format("exec /bin/sh -c '{}{}exec \"$a\"{}'", checking_the_folder(paths.directory, name),
                       in_the_job(paths), then);
  }
  if (paths.pbs_job.empty()) return fmt::format("exec {}{}", program, then);
  return fmt::format("exec /bin/sh -c 'test -e {0} || {{ echo {0}: not found >&2; exit 127; }}; {1}exec {0}{2}'",
                     program, in_the_job(paths), then);
}

}  // namespace

bool is_pbs_job(std::string_view id) {
  return !id.empty() && id.size() <= 128 && is_alnum(id.front()) && all_of(id, "[]._-");
}

base::Result<RemotePaths> remote_paths(std::string_view agent_dir, std::string_view agent_id, std::string_view arch,
                                       std::string_view random) {
  if (agent_id.empty() || agent_id.size() > 64 || !all_of(agent_id, "._-")) {
    return base::invalid_argument("agent id '{}': must be 1 to 64 of [A-Za-z0-9._-]", agent_id);
  }
  RemotePaths paths;
  paths.must_be_ours = !agent_dir.empty() && !agent_dir.starts_with("~/");
  paths.directory = agent_dir.empty() ? "~/.cache/muster" : std::string(agent_dir);
  while (paths.directory.size() > 1 && paths.directory.ends_with('/')) paths.directory.pop_back();
  const std::string_view rest = std::string_view(paths.directory).substr(paths.directory.starts_with("~/") ? 2 : 0);
  const bool is_rooted = paths.directory.starts_with('/') || paths.directory.starts_with("~/");
  if (!is_rooted || rest.empty() || !all_of(rest, "._/+-")) {
    return base::invalid_argument("--agent-dir '{}': must be an absolute path or begin with ~/, of [A-Za-z0-9._/+-]",
                                  agent_dir);
  }
  paths.agent = fmt::format("{}/agent-{}-{}", paths.directory, agent_id, arch);
  paths.temporary = fmt::format("{}/.agent-{}-{}.{}", paths.directory, agent_id, arch, random);
  return paths;
}

base::Status check_target_names(std::string_view name, std::string_view user) {
  if (!is_host_name(name) && !base::IpAddress::parse(name).ok()) {
    return base::invalid_argument("host name '{}': must match [A-Za-z0-9_][A-Za-z0-9._-]*", base::printable(name));
  }
  if (!user.empty() && !((is_alnum(user.front()) || user.front() == '_') && all_of(user, "._-$@"))) {
    return base::invalid_argument("host {}: user name '{}' must match [A-Za-z0-9_][A-Za-z0-9._-]*", name,
                                  base::printable(user));
  }
  return {};
}

base::Status check_agent_args(const std::vector<std::string>& args) {
  for (const std::string& arg : args) {
    if (arg.empty() || !all_of(arg, "/._=:,@+-")) {
      return base::invalid_argument("agent argument '{}': must be of [A-Za-z0-9/._=:,@+-]", base::printable(arg));
    }
  }
  return {};
}

std::string cached_command(const RemotePaths& paths, const std::vector<std::string>& args) {
  return run_checked(paths, paths.agent, with_args("", args));
}

std::string install_command(const RemotePaths& paths, std::string_view sha256, const std::vector<std::string>& args) {
  return run_checked(paths, paths.temporary, with_args(fmt::format(" --install {} {}", sha256, paths.agent), args));
}

std::string packed_command(const RemotePaths& paths, const PackedCommand& packed,
                           const std::vector<std::string>& args) {
  std::string script;
  for (const std::string& path : {packed.shared, packed.stops_if_there_is_one ? paths.agent : std::string()}) {
    if (!path.empty())
      script += fmt::format("test -e {} && {{ echo; echo \"{}shared\"; exit 0; }}; ", path, kStepMarker);
  }
  // `head -c` stops at the last byte, so it works even if EOF never reaches the host. `wc` detects a short file. The
  // file is opened before the launcher hears of it: if it gives up and removes the file, `head` does not make it again.
  // An `exec` whose file cannot be opened would end the shell, so `true` tries first.
  script += fmt::format(
      "umask 077; mkdir -p {0} && true > {1} && exec 3> {1} && echo && echo \"{3}send\" `uname -sm` && "
      "head -c {2} >&3 && exec 3>&- && test {2} -eq `wc -c < {1}` && chmod 700 {1} || {{ rm -f {1}; exit 1; }}; ",
      paths.directory, paths.temporary, packed.unpacker_size, kStepMarker);
  std::string program = paths.temporary;
  if (paths.must_be_ours) {
    script += checking_the_folder(paths.directory, name_in(paths.directory, paths.temporary));
    program = "\"$a\"";
  }
  const std::string then = with_args(" " + name_in(paths.directory, paths.agent), args);
  return fmt::format("exec /bin/sh -c '{}{}exec {}{}'", script, in_the_job(paths), program, then);
}

std::string remove_command(const RemotePaths& paths) {
  return fmt::format("exec rm -f {0} {0}_new", paths.temporary);  // the second: agent/unpack/place.h
}

RemoteSystem parse_uname(std::string_view output) {
  RemoteSystem system;
  for (const std::string_view line : base::split(output, '\n')) {
    const std::string_view trimmed = base::trim(line);
    const std::size_t blank = trimmed.find(' ');
    if (blank == std::string_view::npos || trimmed.find(' ', blank + 1) != std::string_view::npos) continue;
    const std::string_view os = trimmed.substr(0, blank);
    const std::string_view arch = trimmed.substr(blank + 1);
    if (!all_of(os, "_-./") || !all_of(arch, "_-")) continue;
    system = {std::string(os), std::string(arch)};  // the last such line wins, because the shell's noise comes first
  }
  return system;
}

std::string sftp_path(std::string_view path) {
  return std::string(path.starts_with("~/") ? path.substr(2) : path);
}

}  // namespace muster::launcherd::bootstrap
