// Hands the file of a shared segment to the other ranks of a host. It uses an abstract Unix socket, between processes
// of our uid only.
//   requester  sends the memory's name, NUL-padded to kMemoryName bytes
//   owner      sends one byte with the file descriptor
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include <poll.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::collectives::inline join {

inline constexpr std::size_t kMemoryName = 96;

// The owner's end. No call blocks.
// Thread: one.
class MemoryShare {
 public:
  static base::Result<MemoryShare> open();

  const std::string& unix_name() const { return unix_name_; }
  // Keeps a copy of `fd`.
  base::Status add(const std::string& name, int fd);
  void remove(const std::string& name);

  // Adds the descriptors to poll for reading. Call turn() with the same vector after the poll.
  void add_to(std::vector<pollfd>& fds) const;
  void turn();
  // If descriptors ran out, the share accepts no connection before this time. Until then the caller must not poll the
  // listener.
  base::MonotonicTime pauses_until() const { return pauses_until_; }

 private:
  struct Requester {
    base::UniqueFd socket;
    std::array<char, kMemoryName> name{};
    std::size_t got = 0;
  };
  // Returns false if the requester has been served or is gone.
  bool serve(Requester& requester);
  void accept_new();

  std::string unix_name_;
  base::UniqueFd listener_;
  std::map<std::string, base::UniqueFd> shared_;
  std::vector<Requester> requesters_;
  base::MonotonicTime pauses_until_{};
};

}  // namespace muster::collectives::join
