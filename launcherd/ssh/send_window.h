// SendWindow limits the bytes of a channel that the host's program has not read yet. sshd keeps such bytes in a buffer
// that it copies to a larger one for each packet: with 1 MiB in it that has cost more than 16 MiB of copies.
#pragma once

#include <algorithm>
#include <cstddef>

namespace muster::launcherd::inline ssh {

class SendWindow {
 public:
  // sshd tells after every 96 KiB what its program has read. With this limit a host 10 ms away gets 25 MB/s.
  static constexpr std::size_t kLeast = std::size_t{256} * 1024;

  // Returns how many bytes may be sent now. `window` is what the host still accepts, in bytes.
  std::size_t allowed(std::size_t window) {
    whole_ = std::max(whole_, window);
    const std::size_t unread = whole_ - window;
    return unread < limit_ ? std::min(window, limit_ - unread) : 0;
  }

  // The host has read nothing for a while: it is far away, or it tells less often than sshd. Makes the limit larger.
  void widen() { limit_ *= 2; }

 private:
  std::size_t whole_ = 0;  // the largest window so far, that of a program that has read everything
  std::size_t limit_ = kLeast;
};

}  // namespace muster::launcherd::ssh
