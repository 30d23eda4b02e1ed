// Messages and classification of failures to start a host.
// Read to_status() first, then the classify_ functions at the end, which read what ssh and shells printed.
#include "launcherd/bootstrap/failure.h"

#include <cerrno>
#include <initializer_list>

#include "base/strings.h"
#include "launcherd/bootstrap/remote_command.h"

namespace muster::launcherd::inline bootstrap {
namespace {

using base::Code;

bool has(std::string_view text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    if (text.find(word) != std::string_view::npos) return true;
  }
  return false;
}

// Formats the host's output as the end of a sentence: `: "…"`. Prefers stderr.
std::string quoted_output(const Failure& f) {
  const std::string errors = quote_for_message(f.errors);
  const std::string printed = quote_for_message(f.printed);
  const bool is_noise = f.kind == FailureKind::kNoisyShell && !printed.empty();
  if (!errors.empty() && !is_noise) return fmt::format(": \"{}\"", errors);
  if (!printed.empty()) return fmt::format(": \"{}\"", printed);
  return f.exit_status >= 0 ? " without any output" : "";
}

std::string ended(const Failure& f) {
  return f.exit_status >= 0 ? fmt::format("ended with exit status {}", f.exit_status) : "ended";
}

std::string at(const Failure& f) {
  return f.address.empty() ? "" : " at " + f.address;
}

std::string login_name(const Failure& f) {
  return f.user.empty() || f.host.find('@') != std::string::npos ? f.host : f.user + "@" + f.host;
}

base::Status connection_status(const Failure& f) {
  switch (f.kind) {
    case FailureKind::kNameNotFound:
      return base::not_found("host {}: cannot resolve the name ({}); check its spelling, DNS and /etc/hosts", f.host,
                             f.detail);
    case FailureKind::kRefused:
      return base::unavailable(
          "host {}: nothing accepts connections{} (connection refused); start sshd there, or give its port with "
          "-p or in the hostfile",
          f.host, at(f));
    case FailureKind::kTimeout:
      return base::deadline_exceeded(
          "host {}: no answer{} in time ({}); check that the host is up and that no firewall blocks it, or "
          "raise --start-timeout",
          f.host, at(f), f.detail);
    case FailureKind::kNoRoute:
      return base::unavailable("host {}: not reachable{} ({}); check that the host is up and that a route leads to it",
                               f.host, at(f), f.detail);
    case FailureKind::kClosed:
      return base::unavailable(
          "host {}: connection{} closed during the log-in ({}); check sshd's log there (MaxStartups, "
          "AllowUsers, fail2ban)",
          f.host, at(f), f.detail);
    default:
      return base::unavailable("host {}: ssh failed{} ({}); try: ssh {} true", f.host, at(f), f.detail, login_name(f));
  }
}

base::Status login_status(const Failure& f) {
  switch (f.kind) {
    case FailureKind::kHostKeyChanged:
      return base::failed_precondition(
          "host {}: its host key differs from the one in {} (the host was reinstalled, or another machine "
          "answers in its place); if you expected the change, run: ssh-keygen -R '{}'",
          f.host, f.detail.empty() ? "known_hosts" : f.detail, f.name);
    case FailureKind::kHostKeyUnknown:
      return base::failed_precondition(
          "host {}: its host key is unknown and StrictHostKeyChecking forbids accepting it; accept it once "
          "with: ssh {}",
          f.host, login_name(f));
    case FailureKind::kHostKeyRevoked:
      return base::failed_precondition(
          "host {}: known_hosts marks its host key as revoked; ask the host's administrator for a new key", f.host);
    case FailureKind::kNoSsh:
      return base::failed_precondition(
          "host {}: cannot run the ssh program, which this host needs ({}); install openssh-client or use "
          "--ssh-backend libssh",
          f.host, f.detail);
    default:
      return base::unauthenticated(
          "host {}: sshd did not accept user {} ({}); install your key there with: ssh-copy-id {}, or name "
          "another key with -i",
          f.host, f.user.empty() ? "of yours" : f.user, f.detail, login_name(f));
  }
}

base::Status agent_status(const Failure& f) {
  switch (f.kind) {
    case FailureKind::kNoSpace:
      return base::resource_exhausted(
          "host {}: no space left for the agent in {}{}; free some, or choose another folder with --agent-dir DIR",
          f.host, f.directory, quoted_output(f));
    case FailureKind::kReadOnly:
      return base::failed_precondition(
          "host {}: {} is on a read-only file system{}; choose another folder with --agent-dir DIR", f.host,
          f.directory, quoted_output(f));
    case FailureKind::kNoWrite:
      return base::permission_denied(
          "host {}: cannot store the agent in {}{}; check the folder's permissions, or choose another one "
          "with --agent-dir DIR",
          f.host, f.directory, quoted_output(f));
    case FailureKind::kNoExec:
      return base::failed_precondition(
          "host {}: cannot run programs in {} (file system mounted noexec?){}; choose another folder with "
          "--agent-dir DIR",
          f.host, f.directory, quoted_output(f));
    case FailureKind::kUnsafeFolder:
      return base::permission_denied(
          "host {}: another user could replace the agent in {}{}; choose another folder with --agent-dir DIR", f.host,
          f.directory, quoted_output(f));
    case FailureKind::kWrongArch:
      return base::failed_precondition(
          "host {}: {}; build muster-agent for that architecture and start Muster from such a machine", f.host,
          f.detail);
    case FailureKind::kOtherBuild:
      return base::failed_precondition(
          "host {}: the agent there is from another build ({}); remove it: ssh {} rm {}/agent-*", f.host, f.detail,
          login_name(f), f.directory);
    case FailureKind::kNoisyShell:
      return base::unavailable(
          "host {}: no agent answered; the login shell {}{}; remove output and exec from its start-up files "
          "for non-interactive shells, then try: ssh {} true",
          f.host, ended(f), quoted_output(f), login_name(f));
    default:
      return base::unavailable("host {}: the agent in {} {} before it answered{}{}; run there: {}/agent-* --version",
                               f.host, f.directory, ended(f), quoted_output(f),
                               f.detail.empty() ? "" : " (" + f.detail + ")", f.directory);
  }
}

}  // namespace

base::Status to_status(const Failure& f) {
  switch (f.kind) {
    case FailureKind::kNone:
      return {};
    case FailureKind::kCancelled:
      return base::cancelled("host {}: cancelled", f.host);
    case FailureKind::kNameNotFound:
    case FailureKind::kRefused:
    case FailureKind::kTimeout:
    case FailureKind::kNoRoute:
    case FailureKind::kClosed:
    case FailureKind::kSshFailed:
      return connection_status(f);
    case FailureKind::kHostKeyChanged:
    case FailureKind::kHostKeyUnknown:
    case FailureKind::kHostKeyRevoked:
    case FailureKind::kAuthRefused:
    case FailureKind::kNoSsh:
      return login_status(f);
    default:
      return agent_status(f);
  }
}

std::string_view failure_words(FailureKind kind) {
  switch (kind) {
    case FailureKind::kNone:
      return "none";
    case FailureKind::kCancelled:
      return "cancelled";
    case FailureKind::kNameNotFound:
      return "name not found";
    case FailureKind::kRefused:
      return "connection refused";
    case FailureKind::kTimeout:
      return "no answer";
    case FailureKind::kNoRoute:
      return "no route";
    case FailureKind::kHostKeyChanged:
      return "host key changed";
    case FailureKind::kHostKeyUnknown:
      return "host key unknown";
    case FailureKind::kHostKeyRevoked:
      return "host key revoked";
    case FailureKind::kAuthRefused:
      return "log-in refused";
    case FailureKind::kClosed:
      return "connection closed";
    case FailureKind::kNoSsh:
      return "no ssh program";
    case FailureKind::kSshFailed:
      return "ssh failed";
    case FailureKind::kAgentMissing:
      return "agent missing";
    case FailureKind::kNoSpace:
      return "no space for the agent";
    case FailureKind::kReadOnly:
      return "read-only file system";
    case FailureKind::kNoWrite:
      return "agent cannot be stored";
    case FailureKind::kNoExec:
      return "agent cannot be run";
    case FailureKind::kUnsafeFolder:
      return "unsafe folder for the agent";
    case FailureKind::kWrongArch:
      return "other architecture";
    case FailureKind::kOtherBuild:
      return "agent from another build";
    case FailureKind::kNoisyShell:
      return "no agent answered";
    case FailureKind::kAgentFailed:
      return "agent failed";
  }
  return "unknown";
}

Failure wait_failure(const base::Status& waited) {
  if (waited.ok()) return {};
  if (waited.code() == Code::kCancelled) return {.kind = FailureKind::kCancelled};
  if (waited.code() == Code::kResourceExhausted) return {.kind = FailureKind::kSshFailed, .detail = waited.message()};
  return {.kind = FailureKind::kTimeout, .detail = waited.message()};
}

FailureKind classify_ssh_errors(std::string_view errors) {
  if (has(errors, {"REMOTE HOST IDENTIFICATION HAS CHANGED"})) return FailureKind::kHostKeyChanged;
  if (has(errors, {"REVOKED HOST KEY", "has been revoked", "marked as revoked"})) return FailureKind::kHostKeyRevoked;
  if (has(errors, {"Host key verification failed", "key is known for", "authenticity of host"})) {
    return FailureKind::kHostKeyUnknown;
  }
  if (has(errors, {"Could not resolve hostname", "Name or service not known", "name resolution"})) {
    return FailureKind::kNameNotFound;
  }
  if (has(errors, {"Permission denied (", "Too many authentication failures", "No more authentication methods",
                   "no mutual signature"})) {
    return FailureKind::kAuthRefused;
  }
  if (has(errors, {"Connection refused"})) return FailureKind::kRefused;
  if (has(errors, {"timed out", "not responding"})) return FailureKind::kTimeout;
  if (has(errors, {"No route to host", "Network is unreachable", "Host is down"})) return FailureKind::kNoRoute;
  if (has(errors, {"Connection closed by", "Connection reset by", "closed by remote host", "Broken pipe"})) {
    return FailureKind::kClosed;
  }
  return FailureKind::kSshFailed;
}

bool is_closed_before_banner(std::string_view errors) {
  return has(errors,
             {"kex_exchange_identification", "banner exchange", "Exceeded MaxStartups", "ssh_exchange_identification"});
}

FailureKind classify_errno(int errno_value) {
  switch (errno_value) {
    case ECONNREFUSED:
      return FailureKind::kRefused;
    case ETIMEDOUT:
      return FailureKind::kTimeout;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
    case EADDRNOTAVAIL:
    case EACCES:
    case EPERM:
      return FailureKind::kNoRoute;
    case ECONNRESET:
    case EPIPE:
    case ECONNABORTED:
      return FailureKind::kClosed;
    default:
      return FailureKind::kSshFailed;
  }
}

FailureKind classify_store_errors(std::string_view errors) {
  if (has(errors, {"No space left", "quota exceeded", "Quota exceeded", "File too large", "File size limit"}))
    return FailureKind::kNoSpace;
  if (has(errors, {"Read-only file system"})) return FailureKind::kReadOnly;
  return FailureKind::kNoWrite;
}

FailureKind classify_agent_end(int exit_status, std::string_view errors, std::string_view printed) {
  if (exit_status == 126 && has(errors, {kUnsafeFolderWords})) return FailureKind::kUnsafeFolder;
  if (has(errors, {"Exec format error", "cannot execute binary file", "wrong architecture"})) {
    return FailureKind::kWrongArch;
  }
  const bool is_denied = has(errors, {"ermission denied"});
  if (is_denied && (exit_status == 126 || exit_status == 1 || exit_status == 127)) return FailureKind::kNoExec;
  // If the program is missing, csh exits with 1, and fish with 127 or 125. Each shell has its own wording; zsh begins
  // with a small letter.
  const bool is_not_found =
      has(errors, {"o such file", "not found", "Command not found", "Unknown command", "does not exist"});
  if (exit_status == 127)
    return is_not_found || errors.empty() ? FailureKind::kAgentMissing : FailureKind::kAgentFailed;
  if (is_not_found && has(errors, {"agent-"})) return FailureKind::kAgentMissing;
  if (exit_status == 126) return FailureKind::kNoExec;
  if (exit_status <= 0 || (!printed.empty() && errors.empty())) return FailureKind::kNoisyShell;
  return FailureKind::kAgentFailed;
}

bool is_new_host_key_line(std::string_view line) {
  return line.starts_with("Warning: Permanently added ");
}

std::string without_ssh_warnings(std::string_view errors) {
  std::string result;
  for (const std::string_view line : base::split(errors, '\n')) {
    if (is_new_host_key_line(line)) continue;
    if (!result.empty()) result += '\n';
    result += line;
  }
  return result;
}

std::string quote_for_message(std::string_view text) {
  std::string result;
  bool is_blank_due = false;
  for (std::size_t i = 0; i < text.size() && result.size() < 200; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0x1b && i + 1 < text.size() && text[i + 1] == '[') {  // skip a terminal's escape sequence
      for (i += 2; i < text.size() && (text[i] < '@' || text[i] > '~'); ++i) {
      }
      is_blank_due = true;
    } else if (byte <= 0x20 || byte >= 0x7f) {
      is_blank_due = true;
    } else {
      if (is_blank_due && !result.empty()) result += ' ';
      is_blank_due = false;
      result += text[i] == '"' ? '\'' : text[i];
    }
  }
  return result.substr(0, 200);
}

}  // namespace muster::launcherd::bootstrap
