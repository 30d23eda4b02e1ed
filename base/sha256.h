// SHA-256 of bytes in memory and of whole files. A file blocks for as long as the disk takes. Thread: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::base {

inline constexpr std::size_t kSha256Size = 32;

// Returns the 32 bytes of the hash of `bytes`. INTERNAL if OpenSSL does not provide SHA-256.
Result<std::string> sha256_of(std::string_view bytes);

// Returns the 32 bytes of the hash of all that can be read from `fd` from offset 0 on. The position of `fd` does not
// change. CANCELLED if `stop` becomes true, which is checked before each 256 KiB.
Result<std::string> sha256_of_file(int fd, const std::atomic<bool>* stop = nullptr);

// Returns the bytes in lower-case hexadecimal digits.
std::string hex_of(std::string_view bytes);

// Hashes bytes that arrive in pieces. Use it on one thread at a time.
class Sha256 {
 public:
  // INTERNAL if OpenSSL does not provide SHA-256.
  static Result<Sha256> begin();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  ~Sha256();

  void add(std::string_view bytes);
  // Returns the 32 bytes of the hash of all pieces. Call it once, as the last call.
  Result<std::string> finish();

 private:
  struct State;
  explicit Sha256(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace muster::base
