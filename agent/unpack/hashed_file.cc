#include "agent/unpack/hashed_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace muster::agent::inline unpack {

HashedFile::HashedFile(int fd, std::uint64_t size) : fd_(fd), size_(size) {
  ::SHA256_Init(&hash_);
}

Problem HashedFile::write(std::string_view bytes) {
  if (bytes.size() > size_ - written_) return "the agent is longer than " + std::to_string(size_) + " bytes";
  ::SHA256_Update(&hash_, bytes.data(), bytes.size());
  written_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_problem(errno, "cannot write the agent");
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Problem HashedFile::check(std::string_view sha256) {
  constexpr std::string_view kHex = "0123456789abcdef";
  unsigned char digest[SHA256_DIGEST_LENGTH];
  ::SHA256_Final(digest, &hash_);
  std::string hex;
  for (const unsigned char byte : digest) {
    hex += kHex[byte >> 4];
    hex += kHex[byte & 15];
  }
  if (written_ != size_) {
    return "the agent has " + std::to_string(written_) + " bytes instead of " + std::to_string(size_);
  }
  if (hex != sha256) return "the agent has the hash " + hex + " instead of " + std::string(sha256);
  return {};
}

Problem errno_problem(int error, std::string_view what) {
  return std::string(what) + ": " + ::strerror(error);
}

}  // namespace muster::agent::unpack
