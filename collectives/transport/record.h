// What an encrypted link sends: records of AES-256-GCM, each way with a key of its own that both ends derive from the
// job's secret and the nonces of their handshake.
//
//   record   number of bytes (4, little-endian, 1 … kMaxRecordBytes), so many bytes sealed, their tag (16)
//
// The number is authenticated as well. Records are counted, and the count is the nonce: one that is changed, repeated,
// left out or comes in another order cannot be opened.
//
// Not shared between threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/status.h"

struct evp_cipher_ctx_st;

namespace muster::collectives::inline transport {

inline constexpr std::size_t kMaxRecordBytes = std::size_t{64} << 10;
inline constexpr std::size_t kRecordHeadBytes = 4;
inline constexpr std::size_t kRecordTagBytes = 16;
inline constexpr std::size_t kMaxRecordSize = kRecordHeadBytes + kMaxRecordBytes + kRecordTagBytes;

using RecordKey = std::array<char, 32>;

// Of one end of a link; wiped when it goes.
struct RecordKeys {
  RecordKey sending{};
  RecordKey receiving{};
  RecordKeys() = default;
  RecordKeys(const RecordKeys&) = default;
  RecordKeys& operator=(const RecordKeys&) = default;
  ~RecordKeys();
};

// HKDF-SHA256 (RFC 5869) for 32 bytes.
RecordKey derive_key(std::string_view secret, std::string_view salt, std::string_view info);

class RecordCipher {
 public:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  using Context = std::unique_ptr<evp_cipher_ctx_st, Free>;

 protected:
  explicit RecordCipher(Context context) : context_(std::move(context)) {}
  // The count as 12 bytes, and one more from then on.
  std::array<unsigned char, 12> next_nonce();

  Context context_;

 private:
  std::uint64_t count_ = 0;
};

class RecordSealer : public RecordCipher {
 public:
  // INTERNAL: libcrypto cannot do it.
  static base::Result<RecordSealer> create(const RecordKey& key);

  // 1 to kMaxRecordBytes of `head` and `body` together, into `record`, which has room for them; the record's size.
  base::Result<std::size_t> seal(std::span<const std::byte> head, std::span<const std::byte> body,
                                 std::span<std::byte> record);

 private:
  explicit RecordSealer(Context context) : RecordCipher(std::move(context)) {}
};

class RecordOpener : public RecordCipher {
 public:
  static base::Result<RecordOpener> create(const RecordKey& key);

  // Of the record that begins with these bytes, at least kRecordHeadBytes of them. UNAUTHENTICATED: there is none of
  // such a size.
  static base::Result<std::size_t> size_of_record(std::span<const std::byte> begin);
  // A whole record; its bytes, opened where they lie. UNAUTHENTICATED: it is not the one that was sealed next. The
  // bytes are of no use then, and nothing can be opened any more.
  base::Result<std::span<std::byte>> open(std::span<std::byte> record);

 private:
  explicit RecordOpener(Context context) : RecordCipher(std::move(context)) {}
};

}  // namespace muster::collectives::transport
