// How the surviving ranks of a communicator agree on which ranks survive. They do so in rounds:
//
//   1. The first surviving rank puts the list of the ranks that it believes to survive ("left/...").
//   2. The ranks of the list make a communicator. Each reports its result ("made/...") to the first of the list.
//   3. The first rank decides for all ("shrunk/..."). There are three results: the new communicator is made; it has
//      failed on all ranks; or ranks of the list have ended, and the next round leaves them out.
//
// Ranks learn of ends at different times. Across hosts, a communicator is made without all ranks meeting. So only step
// 3 ensures that all ranks return the same result. If the deciding rank ends, the next one decides. Values that the
// ended rank had put still count, so a rank that learns of its end reads once more.
//
// Read shrink() at the end first, then the three steps in their order.
#include <algorithm>
#include <chrono>

#include <fmt/ranges.h>

#include "base/strings.h"
#include "collectives/group/communicator.h"

namespace muster::collectives::inline group {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPollTime{100};  // between two checks of which ranks still run
constexpr std::string_view kMade = "made";
constexpr std::string_view kAgain = "again ";

}  // namespace

struct Communicator::ShrinkRound {
  std::string place;   // part of the keys' names: communicator, call and round
  std::set<int> gone;  // ranks here that earlier rounds found to have ended
};

// One of three results. If `gone` is set, the next round leaves these ranks out. If `failure` is set, the call fails on
// all ranks. Otherwise the communicator is made.
struct Communicator::Verdict {
  std::set<int> gone = {};
  Failure failure = {};

  std::string text() const {
    if (!gone.empty()) return fmt::format("{}{}", kAgain, fmt::join(gone, ","));
    return failure.code == base::Code::kOk ? std::string(kMade) : encode(failure);
  }
  static Verdict of(const std::string& text, int size) {
    if (text == kMade) return {};
    if (text.starts_with(kAgain)) {
      const auto ranks = base::parse_number_list(text.substr(kAgain.size()), size - 1);
      if (ranks && !ranks->empty()) return {.gone = {ranks->begin(), ranks->end()}};
    }
    return {.failure = decode_failure(text)};
  }
};

std::vector<int> Communicator::survivors(const std::set<int>& gone) const {
  const Failure why = failure();
  const int blamed = why.code == base::Code::kUnavailable ? why.rank : -1;
  std::vector<int> left;
  for (int rank = 0; rank < size(); ++rank) {
    const bool is_there = world_rank(rank) != blamed && !gone.contains(rank) && !world_->end_of(world_rank(rank));
    if (is_there) left.push_back(rank);
  }
  return left;
}

Failure Communicator::not_shrinking(int rank) const {
  const Member& member = world_->member(world_rank(rank));
  const bool is_silent = !world_->silent_of(std::span(&member.rank, 1)).empty();
  return {base::Code::kDeadlineExceeded, member.rank, member.host,
          fmt::format("rank {} ({}) did not call shrink within {} s, as all surviving ranks must{}", member.rank,
                      member.host, std::chrono::duration<double>(world_->options().deadline).count(),
                      is_silent ? fmt::format("; {} does not answer the launcher", member.host) : "")};
}

// Step 1. If the first rank has ended since it put its list, that list still counts.
base::Result<std::vector<int>> Communicator::agree_on_survivors(const ShrinkRound& round, Failure* why) {
  const std::string name = "left/" + round.place;
  const auto end = std::chrono::steady_clock::now() + world_->options().deadline;
  while (true) {
    const std::vector<int> left = survivors(round.gone);
    if (left.empty()) return left;
    const bool decides = left.front() == rank_;
    if (!decides || rank_ != 0) {
      const auto decided = world_->get(name, kPollTime);
      if (decided.ok()) return base::parse_number_list(*decided, size() - 1).value_or(std::vector<int>());
      // The session was lost together with rank 0, for all ranks. So each rank must use its own list of survivors.
      if (decided.status().code() != base::Code::kDeadlineExceeded) return left;
    }
    if (decides) {
      const base::Status stored = world_->put(name, fmt::format("{}", fmt::join(left, ",")));
      return stored.ok() || stored.code() == base::Code::kUnavailable ? base::Result(left) : stored;
    }
    if (std::chrono::steady_clock::now() > end) {
      const Failure late = not_shrinking(left.front());
      if (why != nullptr) *why = late;
      return base::Status(late.code, late.message);
    }
  }
}

// Returns the result of `rank` in step 2, or nullopt if the rank has ended, whatever it reported before.
std::optional<Failure> Communicator::report_of(const ShrinkRound& round, int rank, base::MonotonicTime end) {
  const std::string name = fmt::format("made/{}/{}", round.place, rank);
  while (!world_->end_of(world_rank(rank))) {
    const auto report = world_->get(name, kPollTime);
    if (report.ok()) return *report == kMade ? Failure{} : decode_failure(*report);
    if (report.status().code() != base::Code::kDeadlineExceeded) return Failure{};  // the session was lost, as above
    if (base::monotonic_now() > end) return not_shrinking(rank);
  }
  return std::nullopt;
}

// Step 3, on the first rank of the list.
Communicator::Verdict Communicator::decide(const ShrinkRound& round, const std::vector<int>& left, const Failure& own) {
  Verdict verdict{.failure = own};
  const base::MonotonicTime end = base::monotonic_now() + policy_.deadline;
  for (const int rank : left) {
    if (rank == rank_) continue;
    const std::optional<Failure> report = report_of(round, rank, end);
    if (report && verdict.failure.code == base::Code::kOk) verdict.failure = *report;
  }
  // Forming failed because a rank has ended. The report of that end may arrive later, so wait for it.
  if (verdict.failure.code == base::Code::kUnavailable && verdict.failure.rank >= 0) {
    (void)world_->wait_for_end(verdict.failure.rank, World::kEndReportTime);
  }
  for (const int rank : left) {
    if (world_->end_of(world_rank(rank))) verdict.gone.insert(rank);
  }
  const base::Status stored = world_->put("shrunk/" + round.place, verdict.text());
  // If the session is lost, it is lost for all ranks.
  if (stored.ok() || stored.code() == base::Code::kUnavailable) return verdict;
  return {.failure = {stored.code(), -1, "", stored.message()}};
}

// Step 3, on the other ranks. The deciding rank may wait for one deadline to make the communicator and for another one
// for reports. So wait for twice the time.
Communicator::Verdict Communicator::follow(const ShrinkRound& round, int decider, const Failure& own) {
  const std::string report = own.code == base::Code::kOk ? std::string(kMade) : encode(own);
  const base::Status stored = world_->put(fmt::format("made/{}/{}", round.place, rank_), report);
  if (!stored.ok()) return {.failure = own};
  const base::MonotonicTime end = base::monotonic_now() + 2 * policy_.deadline + World::kEndReportTime;
  while (true) {
    const bool is_gone = world_->end_of(world_rank(decider)).has_value();  // read before the value
    const auto verdict = world_->get("shrunk/" + round.place, is_gone ? World::kEndReportTime : kPollTime);
    if (verdict.ok()) return Verdict::of(*verdict, size());
    if (verdict.status().code() != base::Code::kDeadlineExceeded) return {.failure = own};
    if (is_gone) return {.gone = {decider}};
    if (base::monotonic_now() > end) return {.failure = not_shrinking(decider)};
  }
}

Communicator::Verdict Communicator::settle(const ShrinkRound& round, const std::vector<int>& left, const Failure& own) {
  return left.front() == rank_ ? decide(round, left, own) : follow(round, left.front(), own);
}

base::Result<std::shared_ptr<Communicator>> Communicator::shrink(Failure* why) {
  int attempt = 0;
  {
    const std::lock_guard lock(mutex_);
    attempt = shrinks_++;
  }
  const Failure failed = failure();
  if (failed.code == base::Code::kUnavailable && failed.rank >= 0) {
    (void)world_->wait_for_end(failed.rank,
                               World::kEndReportTime);  // if the wait fails, survivors() still leaves the rank out
  }
  ShrinkRound round;
  for (int number = 0;; ++number) {  // each round has at least one rank less than the round before
    round.place = fmt::format("{}/{}/{}", name_, attempt, number);
    MUSTER_ASSIGN_OR_RETURN(const std::vector<int> left, agree_on_survivors(round, why));
    if (std::find(left.begin(), left.end(), rank_) == left.end()) {
      return base::unavailable(
          "the other ranks believe that rank {} has ended and continue without it (communicator {})", world_->rank(),
          name_);
    }
    Failure own;
    auto made = group(left, &own);
    if (!made.ok()) own = {made.status().code(), own.rank, own.host, made.status().message()};
    const Verdict verdict = settle(round, left, own);
    if (!verdict.gone.empty()) {
      round.gone.insert(verdict.gone.begin(), verdict.gone.end());
      continue;
    }
    if (verdict.failure.code == base::Code::kOk) return made;
    if (why != nullptr) *why = verdict.failure;
    return base::Status(verdict.failure.code, verdict.failure.message);
  }
}

}  // namespace muster::collectives::group
