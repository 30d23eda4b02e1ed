// Manages the folder of each rank's files under --output-filename or --log-dir, and torch's error files in it.
// Thread: any. Errors name the path and this host.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::launcherd::inline output {

// Returns rank.3 for 10 ranks and rank.03 for 11. The width is horovodrun's floor(log10(size - 1)) + 1, except for a
// single rank, where that formula fails.
std::string rank_directory(const std::string& directory, int rank, int size);

// Returns an error like "--output-filename: open /logs/rank.0/stdout on node7: Permission denied".
base::Status file_error(std::string_view what, const std::string& path, int errno_value);

base::Status make_directory(const std::string& path);    // OK if it exists already
base::Status make_directories(const std::string& path);  // also creates its parents, like mkdir -p

// directory/rank.NN/error.json holds what a rank wrote to TORCHELASTIC_ERROR_FILE. Remove the files of an earlier job
// before the ranks start.
base::Status remove_error_files(const std::string& directory, int size);
base::Status write_error_file(const std::string& directory, int rank, int size, std::string_view content);

}  // namespace muster::launcherd::output
