// The format of an encrypted link: records of AES-256-GCM. Each direction has its own key. Both ends derive the keys
// from the job's secret and the nonces of their handshake.
//
//   record   size (4 bytes, little-endian, 1 … kMaxRecordBytes), that many sealed bytes, their tag (16)
//
// The size is authenticated, too. Records are counted, and the count is the nonce. So a record that is changed,
// repeated, left out or reordered cannot be opened.
//
// Thread: not shared between threads.
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

// The keys of one end of a link, wiped when they are destroyed.
struct RecordKeys {
  RecordKey sending{};
  RecordKey receiving{};
  RecordKeys() = default;
  RecordKeys(const RecordKeys&) = default;
  RecordKeys& operator=(const RecordKeys&) = default;
  ~RecordKeys();
};

// Derives a key of 32 bytes by HKDF-SHA256 (RFC 5869).
RecordKey derive_key(std::string_view secret, std::string_view salt, std::string_view info);

class RecordCipher {
 public:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  using Context = std::unique_ptr<evp_cipher_ctx_st, Free>;

 protected:
  explicit RecordCipher(Context context) : context_(std::move(context)) {}
  // Returns the count as 12 bytes and increments it.
  std::array<unsigned char, 12> next_nonce();

  Context context_;

 private:
  std::uint64_t count_ = 0;
};

class RecordSealer : public RecordCipher {
 public:
  // INTERNAL if libcrypto fails.
  static base::Result<RecordSealer> create(const RecordKey& key);

  // Seals `head` and `body`, together 1 to kMaxRecordBytes bytes, into `record`, which must have room. Returns the
  // record's size.
  base::Result<std::size_t> seal(std::span<const std::byte> head, std::span<const std::byte> body,
                                 std::span<std::byte> record);

 private:
  explicit RecordSealer(Context context) : RecordCipher(std::move(context)) {}
};

class RecordOpener : public RecordCipher {
 public:
  static base::Result<RecordOpener> create(const RecordKey& key);

  // Returns the size of the record that begins with these bytes. `begin` must hold at least kRecordHeadBytes.
  // UNAUTHENTICATED if no record has such a size.
  static base::Result<std::size_t> size_of_record(std::span<const std::byte> begin);
  // Opens a whole record in place and returns its bytes. UNAUTHENTICATED if it is not the record that was sealed next.
  // Then its bytes are invalid, and later records cannot be opened.
  base::Result<std::span<std::byte>> open(std::span<std::byte> record);

 private:
  explicit RecordOpener(Context context) : RecordCipher(std::move(context)) {}
};

}  // namespace muster::collectives::transport
