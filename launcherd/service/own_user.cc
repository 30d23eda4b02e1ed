#include "launcherd/service/own_user.h"

#include <pwd.h>
#include <unistd.h>

#include <vector>

#include <fmt/format.h>

namespace muster::launcherd::inline service {
namespace {

std::string look_up_user() {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(16 * 1024);
  if (::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return found->pw_name;
  }
  return fmt::format("uid {}", ::getuid());
}

}  // namespace

const std::string& own_user() {
  static const std::string kName = look_up_user();
  return kName;
}

}  // namespace muster::launcherd::service
