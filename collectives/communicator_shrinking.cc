// The ranks that are left of a communicator find out who they are.
#include <algorithm>
#include <chrono>

#include <fmt/ranges.h>

#include "base/strings.h"
#include "collectives/communicator.h"

namespace muster::collectives {
namespace {

constexpr std::chrono::milliseconds kLookTime{100};  // between two looks at who is left

}  // namespace

std::vector<int> Communicator::survivors() const {
  const Failure why = failure();
  const int blamed = why.code == base::Code::kUnavailable ? why.rank : -1;
  std::vector<int> left;
  for (int rank = 0; rank < size(); ++rank) {
    if (world_rank(rank) != blamed && !world_->end_of(world_rank(rank))) left.push_back(rank);
  }
  return left;
}

// Ranks hear of ends at different times: the first of those that are left decides for all. What it has decided before
// its own end counts, as whoever knows of that end looks once more.
base::Result<std::vector<int>> Communicator::agree_on_survivors(int attempt, Failure* why) {
  const Failure failed = failure();
  if (failed.code == base::Code::kUnavailable && failed.rank >= 0) {
    (void)world_->wait_for_end(failed.rank, kNewsTime);  // without its end, survivors() leaves it out
  }
  const std::string name = fmt::format("left/{}/{}", name_, attempt);
  const auto end = std::chrono::steady_clock::now() + world_->options().deadline;
  while (true) {
    const std::vector<int> left = survivors();
    if (left.empty()) return left;
    const bool decides = left.front() == rank_;
    if (!decides || rank_ != 0) {
      const auto decided = world_->look(name, kLookTime);
      if (decided.ok()) return base::parse_number_list(*decided, size() - 1).value_or(std::vector<int>());
      // The session was lost, with rank 0 and for all: what each of them knows has to do.
      if (decided.status().code() != base::Code::kDeadlineExceeded) return left;
    }
    if (decides) {
      const base::Status told = world_->put(name, fmt::format("{}", fmt::join(left, ",")));
      return told.ok() || told.code() == base::Code::kUnavailable ? base::Result(left) : told;
    }
    if (std::chrono::steady_clock::now() > end) {
      const Member& first = world_->member(world_rank(left.front()));
      if (why != nullptr) *why = {base::Code::kDeadlineExceeded, first.rank, first.host, {}};
      return base::error(base::Code::kDeadlineExceeded,
                         "rank {} ({}) has not called shrink within {} s, as all ranks that are left have to",
                         first.rank, first.host, std::chrono::duration<double>(world_->options().deadline).count());
    }
  }
}

base::Result<std::shared_ptr<Communicator>> Communicator::shrink(Failure* why) {
  int attempt = 0;
  {
    const std::lock_guard lock(mutex_);
    attempt = shrinks_++;
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<int> left, agree_on_survivors(attempt, why));
  if (std::find(left.begin(), left.end(), rank_) == left.end()) {
    return base::error(base::Code::kUnavailable,
                       "the other ranks take rank {} for gone, and go on without it (communicator {})", world_->rank(),
                       name_);
  }
  return group(left, why);
}

}  // namespace muster::collectives
