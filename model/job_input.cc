#include "model/job_input.h"

#include <numeric>

#include "base/strings.h"
#include "model/placement.h"

namespace muster::model {

base::Result<JobInput> parse_input(std::string_view text) {
  if (text == "auto") return JobInput{InputTo::kAuto};
  if (text == "none") return JobInput{InputTo::kNone};
  if (text == "all") return JobInput{InputTo::kAll};
  const auto rank = base::parse_decimal(text, kMaxRanks - 1);
  if (rank) return JobInput{InputTo::kRank, static_cast<int>(*rank)};
  return base::invalid_argument("must be a rank, auto, all or none, not '{}'", base::printable(text));
}

base::Status check_input(const JobInput& input, int size) {
  const bool is_for_others = input.to == InputTo::kAll || (input.to == InputTo::kRank && input.rank != 0);
  if (input.pty && is_for_others) {
    return base::invalid_argument(
        "--pty gives rank 0 the terminal and its keys: --stdin can then only be 0, auto or none");
  }
  if (input.to == InputTo::kRank && input.rank >= size) {
    return base::invalid_argument("--stdin {}: unknown rank; the job has {} (0 to {})", input.rank, size, size - 1);
  }
  return base::ok_status();
}

std::vector<int> reading_ranks(const JobInput& input, int size) {
  if (input.pty) return {0};
  if (input.to == InputTo::kRank) return {input.rank};
  std::vector<int> ranks;
  if (input.to == InputTo::kAll) {
    ranks.resize(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  return ranks;
}

}  // namespace muster::model
