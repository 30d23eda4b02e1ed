#include "agent/commands/install.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <memory>

#include "base/unique_fd.h"

namespace muster::agent::inline commands {
namespace {

base::Result<std::string> sha256_of_self() {
  const base::UniqueFd fd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return base::errno_error(errno, "read this program's own file");
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  if (context == nullptr || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) {
    return base::internal_error("SHA-256 is not available");
  }
  std::string buffer(1 << 18, '\0');
  while (true) {
    const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
    if (n < 0) return base::errno_error(errno, "read this program's own file");
    if (n == 0) break;
    EVP_DigestUpdate(context.get(), buffer.data(), static_cast<std::size_t>(n));
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_DigestFinal_ex(context.get(), digest, &size);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace

base::Status install_self(const std::string& sha256_hex, const std::string& path) {
  char own_path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", own_path, sizeof own_path - 1);
  if (length < 0) return base::errno_error(errno, "find this program's own path");
  own_path[length] = '\0';
  MUSTER_ASSIGN_OR_RETURN(const std::string hash, sha256_of_self());
  if (hash != sha256_hex) {
    ::unlink(own_path);
    return base::data_loss("the agent copied to {} has hash {} instead of {}: the transfer damaged it; start again",
                           own_path, hash, sha256_hex);
  }
  if (::rename(own_path, path.c_str()) != 0) {
    return base::errno_error(errno, fmt::format("rename the agent to {}", path));
  }
  return base::ok_status();
}

}  // namespace muster::agent::commands
