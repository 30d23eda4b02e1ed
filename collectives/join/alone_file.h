// The two files of a start without a launcher. One is the user's secret. The other one says where rank 0 listens, and
// rank 0 publishes it in a shared directory. Both are secret, so a file that is not ours or that other users may read
// is refused.
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

std::string place_path(const std::string& directory);  // the path of the published file
std::string encode_place(const AlonePlace& place);
base::Result<AlonePlace> decode_place(
    std::string_view text);  // INVALID_ARGUMENT if encode_place() does not make such a text

}  // namespace muster::collectives::join
