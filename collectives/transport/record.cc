#include "collectives/transport/record.h"

#include <openssl/evp.h>

#include <algorithm>
#include <utility>

#include "base/hmac.h"
#include "base/little_endian.h"

namespace muster::collectives::inline transport {
namespace {

base::Status broken(const char* what) {
  return base::internal_error("libcrypto cannot {} with AES-256-GCM", what);
}

const unsigned char* bytes_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* bytes_of(std::span<std::byte> bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

int size_of(std::span<const std::byte> bytes) {
  return static_cast<int>(bytes.size());
}

RecordCipher::Context make_context(const RecordKey& key, bool seals) {
  RecordCipher::Context context(EVP_CIPHER_CTX_new());
  const auto* const bytes = reinterpret_cast<const unsigned char*>(key.data());
  if (context == nullptr ||
      EVP_CipherInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, bytes, nullptr, seals ? 1 : 0) != 1) {
    context.reset();
  }
  return context;
}

}  // namespace

RecordKeys::~RecordKeys() {
  base::wipe(sending.data(), sending.size());
  base::wipe(receiving.data(), receiving.size());
}

RecordKey derive_key(std::string_view secret, std::string_view salt, std::string_view info) {
  base::HmacDigest extracted = base::hmac_sha256(salt, {secret});
  const RecordKey key = base::hmac_sha256({extracted.data(), extracted.size()}, {info, "\x01"});
  base::wipe(extracted.data(), extracted.size());
  return key;
}

void RecordCipher::Free::operator()(evp_cipher_ctx_st* context) const {
  EVP_CIPHER_CTX_free(context);
}

std::array<unsigned char, 12> RecordCipher::next_nonce() {
  std::array<unsigned char, 12> nonce{};
  base::put_little_endian(reinterpret_cast<char*>(nonce.data()), count_++);
  return nonce;
}

base::Result<RecordSealer> RecordSealer::create(const RecordKey& key) {
  Context context = make_context(key, true);
  if (context == nullptr) return broken("seal");
  return RecordSealer(std::move(context));
}

base::Result<std::size_t> RecordSealer::seal(std::span<const std::byte> head, std::span<const std::byte> body,
                                             std::span<std::byte> record) {
  const std::size_t size = head.size() + body.size();
  MUSTER_CHECK(size >= 1 && size <= kMaxRecordBytes && record.size() >= kRecordHeadBytes + size + kRecordTagBytes);
  base::put_little_endian(reinterpret_cast<char*>(record.data()), static_cast<std::uint32_t>(size));
  const std::span<std::byte> sealed = record.subspan(kRecordHeadBytes, size);
  const std::span<std::byte> tag = record.subspan(kRecordHeadBytes + size, kRecordTagBytes);
  EVP_CIPHER_CTX* const context = context_.get();
  int written = 0;
  bool is_done = EVP_EncryptInit_ex(context, nullptr, nullptr, nullptr, next_nonce().data()) == 1 &&
                 EVP_EncryptUpdate(context, nullptr, &written, bytes_of(record), kRecordHeadBytes) == 1;
  if (!head.empty()) {
    is_done = is_done && EVP_EncryptUpdate(context, bytes_of(sealed), &written, bytes_of(head), size_of(head)) == 1;
  }
  if (!body.empty()) {
    unsigned char* const behind = bytes_of(sealed.subspan(head.size()));
    is_done = is_done && EVP_EncryptUpdate(context, behind, &written, bytes_of(body), size_of(body)) == 1;
  }
  is_done = is_done && EVP_EncryptFinal_ex(context, bytes_of(tag), &written) == 1 &&
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, kRecordTagBytes, bytes_of(tag)) == 1;
  if (!is_done) return broken("seal");
  return kRecordHeadBytes + size + kRecordTagBytes;
}

base::Result<RecordOpener> RecordOpener::create(const RecordKey& key) {
  Context context = make_context(key, false);
  if (context == nullptr) return broken("open");
  return RecordOpener(std::move(context));
}

base::Result<std::size_t> RecordOpener::size_of_record(std::span<const std::byte> begin) {
  MUSTER_CHECK(begin.size() >= kRecordHeadBytes);
  const auto size = base::get_little_endian<std::uint32_t>(reinterpret_cast<const char*>(begin.data()));
  if (size < 1 || size > kMaxRecordBytes) {
    return base::unauthenticated("invalid record size: {} bytes", size);
  }
  return kRecordHeadBytes + size + kRecordTagBytes;
}

base::Result<std::span<std::byte>> RecordOpener::open(std::span<std::byte> record) {
  MUSTER_CHECK(record.size() > kRecordHeadBytes + kRecordTagBytes);
  const std::size_t size = record.size() - kRecordHeadBytes - kRecordTagBytes;
  const std::span<std::byte> bytes = record.subspan(kRecordHeadBytes, size);
  const std::span<std::byte> tag = record.subspan(kRecordHeadBytes + size, kRecordTagBytes);
  EVP_CIPHER_CTX* const context = context_.get();
  int written = 0;
  const bool is_done = EVP_DecryptInit_ex(context, nullptr, nullptr, nullptr, next_nonce().data()) == 1 &&
                       EVP_DecryptUpdate(context, nullptr, &written, bytes_of(record), kRecordHeadBytes) == 1 &&
                       EVP_DecryptUpdate(context, bytes_of(bytes), &written, bytes_of(bytes), size_of(bytes)) == 1 &&
                       EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, kRecordTagBytes, bytes_of(tag)) == 1;
  if (!is_done) return broken("open");
  if (EVP_DecryptFinal_ex(context, bytes_of(tag), &written) != 1) {
    return base::unauthenticated("a record was changed, repeated or lost in transit");
  }
  return bytes;
}

}  // namespace muster::collectives::transport
