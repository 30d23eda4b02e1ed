// HashedFile writes an agent program into a file piece by piece, and hashes what it writes.
// Errors: a Problem is a sentence without an end mark. Empty means success. base::Status would double the size of
// muster-unpack, because of fmt.
#pragma once

// OpenSSL's old functions of SHA-256 need 10 KB in a static program. Its EVP functions need 3 MB.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace muster::agent::inline unpack {

using Problem = std::string;

class HashedFile {
 public:
  // `fd` must stay open for as long as this object is used. `size` is the size of the whole agent in bytes.
  HashedFile(int fd, std::uint64_t size);

  // Fails if the disk does, or if the agent would get longer than `size`.
  Problem write(std::string_view bytes);
  // Fails unless all `size` bytes were written and their SHA-256 is `sha256`, in lower-case hex. Call it once.
  Problem check(std::string_view sha256);

  std::uint64_t written() const { return written_; }
  std::uint64_t left() const { return size_ - written_; }

 private:
  int fd_;
  std::uint64_t size_;
  std::uint64_t written_ = 0;
  SHA256_CTX hash_;
};

// Returns "`what`: the words for `error`".
Problem errno_problem(int error, std::string_view what);

}  // namespace muster::agent::unpack
