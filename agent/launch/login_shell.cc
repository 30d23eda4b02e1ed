#include "agent/launch/login_shell.h"

#include <unistd.h>

#include <limits>

#include "base/file.h"
#include "base/strings.h"

namespace muster::agent::inline launch {

std::optional<std::string> shell_in(std::string_view passwd, uid_t user) {
  constexpr std::size_t kFields = 7;
  constexpr std::size_t kUser = 2;
  constexpr std::size_t kShell = 6;
  for (const std::string_view line : base::split(passwd, '\n')) {
    const auto fields = base::split(line, ':');
    if (fields.size() != kFields) continue;
    const auto number = base::parse_decimal(fields[kUser], std::numeric_limits<uid_t>::max());
    if (!number || static_cast<uid_t>(*number) != user) continue;
    if (!fields[kShell].starts_with('/') || fields[kShell].find('\0') != std::string_view::npos) return std::nullopt;
    return std::string(fields[kShell]);
  }
  return std::nullopt;
}

std::string login_shell(const base::Environment& login) {
  const auto passwd = base::read_file("/etc/passwd");
  if (passwd.ok()) {
    if (auto shell = shell_in(*passwd, ::getuid())) return *std::move(shell);
  }
  const std::string named(login.get("SHELL").value_or(""));
  return named.starts_with('/') ? named : "/bin/sh";
}

}  // namespace muster::agent::launch
