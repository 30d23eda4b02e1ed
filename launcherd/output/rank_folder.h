// The folder of each rank's files in the directory of --output-filename or --log-dir, and torch's error files in it.
// Functions for any thread. Errors name the path and this host.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::launcherd::inline output {

// rank.3 of 10, rank.03 of 11: horovodrun's floor(log10(size - 1)) + 1, which fails for one rank.
std::string rank_directory(const std::string& directory, int rank, int size);

// "--output-filename: open /logs/rank.0/stdout on node7: Permission denied"
base::Status file_error(std::string_view what, const std::string& path, int errno_value);

base::Status make_directory(const std::string& path);    // it may be there
base::Status make_directories(const std::string& path);  // and its parents, as mkdir -p

// directory/rank.NN/error.json: what a rank wrote to TORCHELASTIC_ERROR_FILE. Those of an earlier job must go first.
base::Status remove_error_files(const std::string& directory, int size);
base::Status write_error_file(const std::string& directory, int rank, int size, std::string_view content);

}  // namespace muster::launcherd::output
