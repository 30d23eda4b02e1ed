#include "collectives/transport/host_team.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <utility>

#include "base/file.h"

namespace muster::collectives::inline transport {
namespace {

constexpr std::size_t kSlotAlignment = 128;  // processors fetch cache lines in pairs

// Returns the state letter in /proc/<pid>/stat: 'T' or 't' if a signal or a debugger stopped it; '\0' if unknown.
char process_state(std::int64_t pid) {
  const auto text = base::read_file(fmt::format("/proc/{}/stat", pid), 4096);
  if (!text.ok()) return '\0';
  const std::size_t name_end = text->rfind(") ");
  return name_end == std::string::npos || name_end + 2 >= text->size() ? '\0' : (*text)[name_end + 2];
}

}  // namespace

HostTeam::HostTeam(Segment segment, int rank, std::vector<Teammate> mates, std::string name, const WaitPolicy& policy)
    : segment_(std::move(segment)),
      rank_(rank),
      size_(segment_.ranks()),
      mates_(std::move(mates)),
      name_(std::move(name)),
      policy_(policy),
      waiter_(policy_, segment_.abort()),
      mates_gone_(std::make_unique<std::atomic<bool>[]>(static_cast<std::size_t>(size_))) {
  MUSTER_CHECK(std::cmp_equal(mates_.size(), size_) && rank_ >= 0 && rank_ < size_);
}

void HostTeam::place_slots(std::size_t bytes) {
  MUSTER_CHECK(bytes <= room());
  if (slots_end_ + bytes > segment_.arena_bytes()) slots_end_ = 0;
  slots_at_ = slots_end_;
  slots_end_ += (bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

std::string HostTeam::name_of_mate(int rank) const {
  return fmt::format("rank {} ({}, pid {})", mate(rank).world_rank, mate(rank).host, mate(rank).pid);
}

Failure HostTeam::late_failure(int rank, const Call& call) {
  failure_ = {base::Code::kDeadlineExceeded, mate(rank).world_rank, mate(rank).host, {}};
  const bool is_gone = mates_gone_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire);
  if (is_gone || segment_.lane(rank).left.load() != 0) {
    failure_.code = base::Code::kUnavailable;
    failure_.message = fmt::format("{}: {} has {} without calling it (communicator {})", describe(call),
                                   name_of_mate(rank), is_gone ? "ended" : "closed its communicator", name_);
    return failure_;
  }
  const char state = process_state(mate(rank).pid);
  failure_.message = fmt::format("{}: {} did not arrive within {} s{} (communicator {})", describe(call),
                                 name_of_mate(rank), std::chrono::duration<double>(policy_.deadline).count(),
                                 state == 'T' || state == 't' ? "; it is stopped by a signal" : "", name_);
  return failure_;
}

base::Status HostTeam::blame(int rank, base::Status status) {
  failure_ = {status.code(), mate(rank).world_rank, mate(rank).host, status.message()};
  return status;
}

base::Status HostTeam::mismatch(int rank, const Call& theirs, const Call& own) {
  failure_ = {base::Code::kFailedPrecondition, mate(rank).world_rank, mate(rank).host,
              fmt::format("{} called {}, {} called {}: all ranks of a communicator ({}) must call the same operations "
                          "in the same order",
                          name_of_mate(rank), describe(theirs), name_of_mate(rank_), describe(own), name_)};
  return {failure_.code, failure_.message};
}

// All stores and loads are sequentially consistent. So if two ranks begin at once, at least one sees the other's call.
base::Status HostTeam::begin_step(std::uint64_t step, const Call& call) {
  const auto words = std::bit_cast<std::array<std::uint64_t, 2>>(call);
  auto& own = segment_.lane(rank_).step;
  own[0].store(0);
  own[1].store(words[0]);
  own[2].store(words[1]);
  own[0].store(step);
  for (int rank = 0; rank < size_; ++rank) {
    const auto& published = segment_.lane(rank).step;
    if (rank == rank_ || published[0].load() != step) continue;
    const auto theirs = std::bit_cast<Call>(std::array<std::uint64_t, 2>{published[1].load(), published[2].load()});
    if (published[0].load() == step && !(theirs == call)) return mismatch(rank, theirs, call);
  }
  return base::ok_status();
}

}  // namespace muster::collectives::transport
