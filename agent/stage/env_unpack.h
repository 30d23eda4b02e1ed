// Unpacks the archive of an environment: Zstandard, then the entries of proto/env_archive.h, then files.
// The archive may be damaged or forged. Memory stays below 16 MiB, and nothing is written outside of the folder.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include "agent/stage/env_tree.h"
#include "base/status.h"

namespace muster::agent::inline stage {

// Returns the next bytes of the archive. Empty at its end.
using ReadArchive = std::function<base::Result<std::string_view>()>;

// Returns the id of what was unpacked; the caller compares it. DATA_LOSS: the archive is damaged. CANCELLED: `stop`
// became true. RESOURCE_EXHAUSTED and others: the disk; the message names the file.
base::Result<std::string> unpack_environment(const ReadArchive& read, EnvTree& tree,
                                             const std::atomic<bool>* stop = nullptr);

}  // namespace muster::agent::stage
