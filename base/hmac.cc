#include "base/hmac.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>

#include "base/status.h"

namespace muster::base {

HmacDigest hmac_sha256(std::string_view secret, std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) text += part;
  HmacDigest digest{};
  unsigned size = 0;
  const unsigned char* const done = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                                         reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                                         reinterpret_cast<unsigned char*>(digest.data()), &size);
  MUSTER_CHECK(done != nullptr && size == kHmacSize);
  return digest;
}

bool is_equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void wipe(void* data, std::size_t size) {
  OPENSSL_cleanse(data, size);
}

}  // namespace muster::base
