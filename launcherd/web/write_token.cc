#include "launcherd/web/write_token.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include <fmt/format.h>

#include "base/file.h"
#include "base/ids.h"

namespace muster::launcherd::inline web {
namespace {

constexpr std::size_t kBytes = 32;

std::string new_token() {
  std::array<unsigned char, kBytes> random{};
  base::random_bytes(random.data(), random.size());
  std::string token;
  for (const unsigned char byte : random) token += fmt::format("{:02x}", byte);
  return token;
}

bool is_token(std::string_view text) {
  return text.size() == 2 * kBytes &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

base::Result<std::string> load_or_make_write_token(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) return base::errno_error(errno, fmt::format("look at {}", path));
    const std::string token = new_token();
    MUSTER_RETURN_IF_ERROR(base::write_file_atomically(path, token + "\n", 0600));
    return token;
  }
  if (!S_ISREG(info.st_mode) || (info.st_mode & 077) != 0 || info.st_uid != ::geteuid()) {
    return base::permission_denied(
        "{} must be a file that only its owner may read: remove it, and launcherd makes a new one", path);
  }
  MUSTER_ASSIGN_OR_RETURN(std::string token, base::read_file(path, 4096));
  while (!token.empty() && token.back() == '\n') token.pop_back();
  if (is_token(token)) return token;
  return base::data_loss("{} holds no token: remove it, and launcherd makes a new one", path);
}

}  // namespace muster::launcherd::web
