// How a shared segment's file reaches the other ranks of a host: over an abstract Unix socket, from a process of our
// own uid to one.
//
//   asker  name of the memory, NUL-padded to kMemoryName bytes
//   giver  one byte, with the file descriptor
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

// The giver's end; one thread, non-blocking.
class MemoryShare {
 public:
  static base::Result<MemoryShare> open();

  const std::string& unix_name() const { return unix_name_; }
  // A copy of `fd`.
  base::Status add(const std::string& name, int fd);
  void remove(const std::string& name);

  // To be polled for reading; then turn() with the same vector after the poll.
  void add_to(std::vector<pollfd>& fds) const;
  void turn();
  // Without a free descriptor nobody is accepted until then. The caller leaves the listener out of its poll until then.
  base::MonotonicTime pauses_until() const { return pauses_until_; }

 private:
  struct Asker {
    base::UniqueFd socket;
    std::array<char, kMemoryName> name{};
    std::size_t got = 0;
  };
  // False: the asker has been served, or is gone.
  bool serve(Asker& asker);
  void accept_new();

  std::string unix_name_;
  base::UniqueFd listener_;
  std::map<std::string, base::UniqueFd> shared_;
  std::vector<Asker> askers_;
  base::MonotonicTime pauses_until_{};
};

}  // namespace muster::collectives::join
