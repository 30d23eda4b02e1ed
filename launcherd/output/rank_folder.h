// Manages the folder of each rank's files under --output-filename or --log-dir, and torch's error files in it.
// Thread: any. Errors name the path and this host.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::launcherd::inline output {

// Returns rank.3 of 10 ranks, rank.03 of 11. The width is horovodrun's floor(log10(size - 1)) + 1, which fails for one
// rank.
std::string rank_directory(const std::string& directory, int rank, int size);

// Returns an error like "--output-filename: open /logs/rank.0/stdout on node7: Permission denied".
base::Status file_error(std::string_view what, const std::string& path, int errno_value);

base::Status make_directory(const std::string& path);    // succeeds if it exists
base::Status make_directories(const std::string& path);  // with its parents, like mkdir -p

// directory/rank.NN/error.json holds what a rank wrote to TORCHELASTIC_ERROR_FILE. Remove the files of an earlier job
// first.
base::Status remove_error_files(const std::string& directory, int size);
base::Status write_error_file(const std::string& directory, int rank, int size, std::string_view content);

}  // namespace muster::launcherd::output
