// The facts that ranks know of each other from the start. Each rank publishes its own under a key of the session.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::collectives::inline join {

struct Member {
  int rank = 0;          // of the world
  std::string host;      // as the user names it (MUSTER_HOSTNAME), for messages
  std::string place;     // equal for ranks that can share memory: host name, network and pid namespaces, uid
  std::int64_t pid = 0;  // as the rank's own pid namespace numbers it
  std::string address;   // IP literal at which other ranks reach its TCP listener
  std::uint16_t port = 0;
  bool encrypts = false;  // encrypts its connections to ranks of other hosts
  std::string unix_name;  // abstract Unix socket (without the leading NUL) that hands out shared memory
};

std::string encode(const Member& member);
base::Result<Member> decode_member(std::string_view bytes);  // INVALID_ARGUMENT unless encode() made `bytes`

}  // namespace muster::collectives::join
