// How ranks tell each other what has been submitted to them: a list of named signatures as bytes. Own byte order: the
// ranks of a job have one.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "collectives/engine/signature.h"

namespace muster::collectives::inline engine {

struct Announcement {
  std::string name;
  Signature signature;
  bool operator==(const Announcement&) const = default;
};

// Appends it.
void write(const Announcement& announcement, std::vector<std::byte>& to);

// All of `bytes`, of one of so many ranks. DATA_LOSS: they are no such list, or something in it cannot be done. Any
// bytes may be given.
base::Result<std::vector<Announcement>> read_announcements(std::span<const std::byte> bytes, int ranks);

}  // namespace muster::collectives::engine
