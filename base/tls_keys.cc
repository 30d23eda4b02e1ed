#include "base/tls_keys.h"

#include <utility>

#include <fmt/format.h>

#include "base/hmac.h"

namespace muster::base {
namespace {

constexpr std::size_t kMaxIdentity = 128;
constexpr std::size_t kMinSecret = 16;
constexpr std::size_t kMaxSecret = 256;

}  // namespace

std::string derive_secret(std::string_view secret, std::string_view purpose) {
  HmacDigest digest = hmac_sha256(secret, {purpose});
  std::string text;
  for (const char byte : digest) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  wipe(digest.data(), digest.size());
  return text;
}

TlsKeyRing::~TlsKeyRing() {
  for (auto& [identity, secret] : secrets_) wipe(secret);
}

Status TlsKeyRing::add(TlsKey key) {
  if (key.identity.empty() || key.identity.size() > kMaxIdentity || key.secret.size() < kMinSecret ||
      key.secret.size() > kMaxSecret) {
    return base::invalid_argument("TLS key '{}': its name or its secret is too short or too long", key.identity);
  }
  const std::lock_guard lock(mutex_);
  std::string& secret = secrets_[std::move(key.identity)];
  wipe(secret);
  secret = std::move(key.secret);
  return ok_status();
}

void TlsKeyRing::remove(std::string_view identity) {
  const std::lock_guard lock(mutex_);
  const auto found = secrets_.find(identity);
  if (found == secrets_.end()) return;
  wipe(found->second);
  secrets_.erase(found);
}

std::optional<std::string> TlsKeyRing::secret_of(std::string_view identity) const {
  const std::lock_guard lock(mutex_);
  const auto found = secrets_.find(identity);
  if (found == secrets_.end()) return std::nullopt;
  return found->second;
}

std::optional<TlsKey> TlsKeyRing::first() const {
  const std::lock_guard lock(mutex_);
  if (secrets_.empty()) return std::nullopt;
  return TlsKey{secrets_.begin()->first, secrets_.begin()->second};
}

}  // namespace muster::base
