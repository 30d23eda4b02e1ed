#include "base/sha256.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>
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
  MUSTER_ASSIGN_OR_RETURN(Sha256 hash, Sha256::begin());
  std::vector<char> piece(kPiece);
  for (off_t offset = 0;;) {
    if (stop != nullptr && *stop) return base::cancelled("SHA-256: cancelled");
    const ssize_t count = ::pread(fd, piece.data(), piece.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error(errno, "read");
    if (count == 0) break;
    hash.add({piece.data(), static_cast<std::size_t>(count)});
    offset += count;
  }
  return hash.finish();
}

std::string hex_of(std::string_view bytes) {
  std::string digits;
  for (const char byte : bytes) digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return digits;
}

struct Sha256::State {
  std::unique_ptr<EVP_MD_CTX, FreeContext> context{EVP_MD_CTX_new()};
  bool is_good = true;
};

Sha256::Sha256(std::unique_ptr<State> state) : state_(std::move(state)) {}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

Result<Sha256> Sha256::begin() {
  auto state = std::make_unique<State>();
  if (state->context == nullptr || EVP_DigestInit_ex(state->context.get(), EVP_sha256(), nullptr) != 1) {
    return base::internal_error("SHA-256 cannot be computed: OpenSSL does not provide it");
  }
  return Sha256(std::move(state));
}

void Sha256::add(std::string_view bytes) {
  if (EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) != 1) state_->is_good = false;
}

Result<std::string> Sha256::finish() {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  auto* const to = reinterpret_cast<unsigned char*>(digest.data());
  if (!state_->is_good || EVP_DigestFinal_ex(state_->context.get(), to, &size) != 1) {
    return base::internal_error("SHA-256 cannot be computed");
  }
  digest.resize(size);
  return digest;
}

}  // namespace muster::base
