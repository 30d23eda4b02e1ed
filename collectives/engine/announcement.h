// The byte format in which a rank announces its submissions: a list of named signatures. It uses the host's byte order,
// which is the same on all ranks of a job.
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

// Appends `announcement` to `to`.
void write(const Announcement& announcement, std::vector<std::byte>& to);

// Reads the announcements in `bytes`, which one of `ranks` ranks has sent. DATA_LOSS if `bytes` are no such list, or if
// a signature in the list is invalid.
base::Result<std::vector<Announcement>> read_announcements(std::span<const std::byte> bytes, int ranks);

}  // namespace muster::collectives::engine
