// Starts a rank whose caller brings the place to meet: any store of texts that all ranks of the world reach. Rank 0
// opens a listener and publishes its addresses with a new secret. The other ranks look for that text, and connect.
//
// Security: whoever reads the text can join the world. So only the ranks of the job may read the store.
// Stale texts: a guest accepts a text only if the listener at its address knows the secret in it. Until then it looks
// again. So it never joins an older world whose rank 0 has left.
//
// Thread: any; calls block. The callbacks come from the calling thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/status.h"
#include "collectives/join/alone.h"

namespace muster::collectives::inline join {

// The longest text that rank 0 publishes, in bytes.
inline constexpr std::size_t kMaxMeetingText = 8192;

struct Meeting {
  int rank = 0;
  int size = 1;
  // Stores the text of rank 0 in place of an earlier one.
  std::function<base::Status(const std::string& text)> publish;
  // Returns the text, or an empty string if none is stored yet. It may wait some milliseconds for the text. An error
  // ends the search.
  std::function<base::Result<std::string>()> find;
  // Returns an error once this world can no longer form. May be empty.
  std::function<base::Status()> check{};
};

// Rank 0's side: listens on all addresses, and publishes the place. `preferred` (may be empty) is the address at which
// other hosts reach this one best; the place names it first.
base::Result<AloneHost> open_meeting(const Meeting& meeting, const std::string& preferred);

// The other ranks' side: tries until rank 0 is reached. The message of DEADLINE_EXCEEDED has the last attempt's error.
base::Result<AloneGuest> join_meeting(const Meeting& meeting, const Reach& reach, std::chrono::milliseconds deadline);

}  // namespace muster::collectives::join
