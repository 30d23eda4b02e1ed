#include "agent/gpus/pid_namespace.h"

#include <unistd.h>

#include <array>
#include <limits>

#include "base/strings.h"

namespace muster::agent::inline gpus {
namespace {

// PROC_PID_INIT_INO of Linux's include/linux/proc_ns.h: the first PID namespace has this number on every host.
constexpr std::string_view kHostNamespace = "pid:[4026531836]";

constexpr long kTranslatesSince = 535;
constexpr long kTranslatesSinceMinor = 113;

}  // namespace

bool is_in_host_namespace(const std::string& root) {
  std::array<char, 64> target{};
  const ssize_t size = ::readlink((root + "/proc/self/ns/pid").c_str(), target.data(), target.size());
  return size <= 0 || std::string_view(target.data(), static_cast<std::size_t>(size)) == kHostNamespace;
}

// Source: the kernel module that NVIDIA publishes (open-gpu-kernel-modules, os_find_ns_pid). 535.104 lacks it, and
// all versions from 535.113 on have it.
bool does_driver_translate_pids(std::string_view driver) {
  const auto parts = base::split(driver, '.');
  const auto number = [&](std::size_t at) {
    return at < parts.size() ? base::parse_decimal(parts[at], std::numeric_limits<int>::max()).value_or(0) : 0;
  };
  return number(0) > kTranslatesSince || (number(0) == kTranslatesSince && number(1) >= kTranslatesSinceMinor);
}

}  // namespace muster::agent::gpus
