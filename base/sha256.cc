#include "base/sha256.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

namespace muster::base {
namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10;

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

}  // namespace

Result<std::string> sha256_of(std::string_view bytes) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), &size, EVP_sha256(),
                 nullptr) != 1) {
    return base::internal_error("SHA-256 cannot be computed: OpenSSL does not provide it");
  }
  digest.resize(size);
  return digest;
}

Result<std::string> sha256_of_file(int fd, const std::atomic<bool>* stop) {
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  if (context == nullptr || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) {
    return base::internal_error("SHA-256 cannot be computed: OpenSSL does not provide it");
  }
  std::vector<char> piece(kPiece);
  for (off_t offset = 0;;) {
    if (stop != nullptr && *stop) return base::cancelled("SHA-256: cancelled");
    const ssize_t count = ::pread(fd, piece.data(), piece.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error(errno, "read");
    if (count == 0) break;
    if (EVP_DigestUpdate(context.get(), piece.data(), static_cast<std::size_t>(count)) != 1) {
      return base::internal_error("SHA-256 cannot be computed");
    }
    offset += count;
  }
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  if (EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(digest.data()), &size) != 1) {
    return base::internal_error("SHA-256 cannot be computed");
  }
  digest.resize(size);
  return digest;
}

}  // namespace muster::base
