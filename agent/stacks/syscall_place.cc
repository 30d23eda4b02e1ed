#include "agent/stacks/syscall_place.h"

#include <charconv>

#include <fmt/format.h>

#include "agent/stacks/user_stack.h"
#include "base/file.h"
#include "base/strings.h"

namespace muster::agent::inline stacks {
namespace {

constexpr std::size_t kMaxSyscall = 4096;

}  // namespace

std::optional<std::uint64_t> parse_syscall_address(std::string_view content) {
  // "NUMBER ARGUMENT… STACK ADDRESS", "-1 STACK ADDRESS" outside of a system call, or "running".
  content = base::trim(content);
  const auto blank = content.rfind(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  std::string_view digits = content.substr(blank + 1);
  if (!digits.starts_with("0x")) return std::nullopt;
  digits.remove_prefix(2);
  std::uint64_t address = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), address, 16);
  if (code != std::errc() || end != digits.data() + digits.size() || address == 0) return std::nullopt;
  return address;
}

std::string native_place(pid_t pid) {
  const auto content = base::read_file(fmt::format("/proc/{}/syscall", pid), kMaxSyscall);
  const auto address = content.ok() ? parse_syscall_address(*content) : std::nullopt;
  // The address is that of the instruction after the system call, which may belong to the next function.
  return address ? function_at(pid, *address - 1) : std::string();
}

}  // namespace muster::agent::stacks
