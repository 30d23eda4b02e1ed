// Which ranks read the launcher's stdin (--stdin, --pty). Plain values.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"

namespace muster::model {

enum class InputTo {
  kAuto,  // depends on the launcher's stdin; the CLI must decide it before the job starts
  kNone,
  kAll,
  kRank,
};

struct JobInput {
  InputTo to = InputTo::kAuto;
  int rank = 0;      // for kRank
  bool pty = false;  // rank 0 runs on a terminal, and only rank 0 may read

  bool operator==(const JobInput&) const = default;
};

// Parses "auto", "none", "all" or the number of a rank.
base::Result<JobInput> parse_input(std::string_view text);

// Checks that a job of `size` ranks can have this input. INVALID_ARGUMENT, in the words of the options.
base::Status check_input(const JobInput& input, int size);

// Returns the ranks whose stdin is not /dev/null; kAuto counts as kNone.
std::vector<int> reading_ranks(const JobInput& input, int size);

}  // namespace muster::model
