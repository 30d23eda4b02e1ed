// The sole owner of a file descriptor, which it closes on destruction. A plain move-only value.
#pragma once

#include <utility>

#include "base/status.h"

namespace muster::base {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

struct FdPair {
  UniqueFd first;   // of a pipe: the read end
  UniqueFd second;  // of a pipe: the write end
};

// All descriptors are close-on-exec. `type` is that of socketpair(2): SOCK_STREAM or SOCK_SEQPACKET, perhaps with
// SOCK_NONBLOCK.
Result<FdPair> make_pipe(int flags = 0);
Result<FdPair> make_socketpair(int type);
Status set_nonblocking(int fd, bool on);

// Both functions continue after short counts and EINTR; the fd must be blocking. read_exactly_blocking() returns false
// at an EOF before byte 0.
Status write_all_blocking(int fd, const void* data, std::size_t size);
Result<bool> read_exactly_blocking(int fd, void* data, std::size_t size);

}  // namespace muster::base
