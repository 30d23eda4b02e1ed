// Packs an environment into one archive (proto/env_archive.h), or finds it packed in the cache.
//
// The archive depends only on the environment: entries are in the order of their names, and owners are left out.
// Thread: any; blocks for as long as the disk and the compression take.
// Errors name the path on the launcher's machine. FAILED_PRECONDITION: a file changed while it was read. CANCELLED:
// `stop` was set. After an error no half-written archive is left.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "launcherd/stage/env_cache.h"

namespace muster::launcherd::inline stage {

struct EnvProgress {
  std::atomic<std::uint64_t> done{0};   // bytes of the files that are packed
  std::atomic<std::uint64_t> total{0};  // 0 until the environment is listed
};

struct PackedEnv {
  EnvArchive archive;
  std::vector<std::string> prefixes{};  // the source's paths; the longest first
  std::size_t files = 0;
  std::uint64_t bytes = 0;         // of all files
  std::uint64_t packed_bytes = 0;  // of the archive
  bool is_new = false;             // false if the cache had it
};

// `cache` is the folder of EnvCache, and `never_staged` is that of scan_stage_source().
base::Result<PackedEnv> pack_environment(const std::string& source, const std::string& never_staged,
                                         const std::string& cache, EnvProgress& progress,
                                         const std::atomic<bool>& stop);

}  // namespace muster::launcherd::stage
