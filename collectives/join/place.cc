#include "collectives/join/place.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include <fmt/format.h>

#include "base/env.h"
#include "base/file.h"
#include "base/strings.h"

namespace muster::collectives::inline join {
namespace {

std::string own_hostname() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string namespace_of(const char* kind) {
  struct stat found {};
  const std::string path = fmt::format("/proc/self/ns/{}", kind);
  return stat(path.c_str(), &found) == 0 ? std::to_string(found.st_ino) : "?";
}

std::string boot_id() {
  const auto text = base::read_file("/proc/sys/kernel/random/boot_id", 4096);
  return text.ok() ? std::string(base::trim(*text)) : "?";
}

}  // namespace

std::string own_host() {
  std::string named = base::env_var("MUSTER_HOSTNAME").value_or("");
  return named.empty() ? own_hostname() : named;
}

std::string own_place() {
  return fmt::format("{}/{}/boot:{}/net:{}/pid:{}/uid:{}", own_host(), own_hostname(), boot_id(), namespace_of("net"),
                     namespace_of("pid"), geteuid());
}

}  // namespace muster::collectives::join
