// The two files of a start without a launcher. One is the user's secret. Rank 0 publishes the other one in a shared
// directory, to say where it listens. Both are secret, so a file is refused if it belongs to another user or if other
// users may read it.
// Thread: any.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "collectives/join/alone.h"

namespace muster::collectives::inline join {

// Reads 64 hexadecimal digits, perhaps between white space, as 32 bytes. Returns the errors of base::read_own_file(),
// too.
base::Result<std::string> read_secret_file(const std::string& path);

// Returns the path of the published file.
std::string place_path(const std::string& directory);
std::string encode_place(const AlonePlace& place);
// INVALID_ARGUMENT if `text` does not come from encode_place().
base::Result<AlonePlace> decode_place(std::string_view text);

}  // namespace muster::collectives::join
