// The token of --http-write lets its holder kill, signal and drain by the web page. launcherd keeps it in its state
// directory, in a file that only its user may read.
#pragma once

#include <string>

#include "base/status.h"

namespace muster::launcherd::inline web {

// Returns the token of the file, or makes a new token and writes it there with mode 0600. Blocking.
// PERMISSION_DENIED: others may read the file, or it is no regular file. DATA_LOSS: it holds no token.
base::Result<std::string> load_or_make_write_token(const std::string& path);

}  // namespace muster::launcherd::web
