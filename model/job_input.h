// Which ranks read the launcher's stdin (--stdin, --pty). Plain values.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"

namespace muster::model {

enum class InputTo {
  kAuto,  // as the launcher's stdin is; who knows that decides before the job starts
  kNone,
  kAll,
  kRank,
};

struct JobInput {
  InputTo to = InputTo::kAuto;
  int rank = 0;      // of kRank
  bool pty = false;  // rank 0 runs on a terminal, and only it may read

  bool operator==(const JobInput&) const = default;
};

// "auto", "none", "all" or the number of a rank.
base::Result<JobInput> parse_input(std::string_view text);

// That this job of `size` ranks can have it; INVALID_ARGUMENT, in the words of the options.
base::Status check_input(const JobInput& input, int size);

// The ranks that get something else than /dev/null as stdin; kAuto counts as kNone.
std::vector<int> reading_ranks(const JobInput& input, int size);

}  // namespace muster::model
