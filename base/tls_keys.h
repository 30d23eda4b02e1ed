// The keys that a TLS server accepts. They may be added and removed while it runs. Thread: any.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::base {

struct TlsKey {
  std::string identity;  // public, because it is sent unencrypted; not empty, at most 128 bytes
  std::string secret;    // 16 to 256 random bytes
};

// Derives the key for one purpose from a secret for several purposes: HMAC-SHA256 in lower-case hex (64 characters).
std::string derive_secret(std::string_view secret, std::string_view purpose);

class TlsKeyRing {
 public:
  TlsKeyRing() = default;
  ~TlsKeyRing();  // wipes the secrets, as remove() does
  TlsKeyRing(const TlsKeyRing&) = delete;
  TlsKeyRing& operator=(const TlsKeyRing&) = delete;

  // Replaces an older key of this identity. INVALID_ARGUMENT if a length is not allowed.
  Status add(TlsKey key);
  // Removes the key. Connections that have used it stay open.
  void remove(std::string_view identity);

  std::optional<std::string> secret_of(std::string_view identity) const;
  std::optional<TlsKey> first() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string, std::less<>> secrets_;  // by identity
};

}  // namespace muster::base
