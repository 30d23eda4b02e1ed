// The two files of a start without a launcher: the secret that the user has laid out, and where rank 0 listens, which
// it publishes in a shared directory. Both are secret: a file that others may read, or that is not ours, is refused.
// Any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "collectives/join/alone.h"

namespace muster::collectives::inline join {

// 64 hexadecimal digits, white space around them: the 32 bytes. Errors are those of base::read_own_file(), too.
base::Result<std::string> read_secret_file(const std::string& path);

std::string place_path(const std::string& directory);  // the published file
std::string encode_place(const AlonePlace& place);
base::Result<AlonePlace> decode_place(std::string_view text);  // INVALID_ARGUMENT: not what encode_place() makes

}  // namespace muster::collectives::join
