// How the ranks that are left of a communicator agree on who they are. They do so in rounds:
//
//   1. The first rank that is left puts the list of those that it believes to be left ("left/...").
//   2. The ranks of the list make a communicator. Each reports how that went ("made/...") to the first of the list.
//   3. The first one decides for all ("shrunk/..."): the new communicator is made; or some of the list have ended, and
//      the next round goes on without them; or it has failed, on all of them.
//
// Ranks hear of ends at different times, and on different hosts a communicator is made without meeting the others: only
// step 3 makes sure that all ranks return the same. A rank that decides and ends is followed by the next one. What it
// had put before counts, so whoever hears of its end looks once more.
#include <algorithm>
#include <chrono>

#include <fmt/ranges.h>

#include "base/strings.h"
#include "collectives/group/communicator.h"

namespace muster::collectives::inline group {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookTime{100};  // between two checks of which ranks still run
constexpr std::string_view kMade = "made";
constexpr std::string_view kAgain = "again ";

}  // namespace

struct Communicator::ShrinkRound {
  std::string place;   // in names of keys: which communicator, which call, which round
  std::set<int> gone;  // ranks here that earlier rounds have found to be gone
};

// One of three: `gone` (ranks here) have to be left out; `failure`, on all; else it is made.
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
          fmt::format("rank {} ({}) has not called shrink within {} s, as all ranks that are left have to{}",
                      member.rank, member.host, std::chrono::duration<double>(world_->options().deadline).count(),
                      is_silent ? fmt::format("; {} does not answer the launcher", member.host) : "")};
}

// Step 1. What the first rank that is left has put before its own end counts.
base::Result<std::vector<int>> Communicator::agree_on_survivors(const ShrinkRound& round, Failure* why) {
  const std::string name = "left/" + round.place;
  const auto end = std::chrono::steady_clock::now() + world_->options().deadline;
  while (true) {
    const std::vector<int> left = survivors(round.gone);
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
      const Failure late = not_shrinking(left.front());
      if (why != nullptr) *why = late;
      return base::Status(late.code, late.message);
    }
  }
}

// How `rank` has fared in step 2. nullopt: it has ended, whatever it has reported before.
std::optional<Failure> Communicator::report_of(const ShrinkRound& round, int rank, base::MonotonicTime end) {
  const std::string name = fmt::format("made/{}/{}", round.place, rank);
  while (!world_->end_of(world_rank(rank))) {
    const auto report = world_->look(name, kLookTime);
    if (report.ok()) return *report == kMade ? Failure{} : decode_failure(*report);
    if (report.status().code() != base::Code::kDeadlineExceeded) return Failure{};  // a lost session, as above
    if (base::monotonic_now() > end) return not_shrinking(rank);
  }
  return std::nullopt;
}

// Step 3, of the first rank of the list.
Communicator::Verdict Communicator::decide(const ShrinkRound& round, const std::vector<int>& left, const Failure& own) {
  Verdict verdict{.failure = own};
  const base::MonotonicTime end = base::monotonic_now() + policy_.deadline;
  for (const int rank : left) {
    if (rank == rank_) continue;
    const std::optional<Failure> report = report_of(round, rank, end);
    if (report && verdict.failure.code == base::Code::kOk) verdict.failure = *report;
  }
  // One that could not be made because a rank has ended; the news may still be on their way.
  if (verdict.failure.code == base::Code::kUnavailable && verdict.failure.rank >= 0) {
    (void)world_->wait_for_end(verdict.failure.rank, kNewsTime);
  }
  for (const int rank : left) {
    if (world_->end_of(world_rank(rank))) verdict.gone.insert(rank);
  }
  const base::Status told = world_->put("shrunk/" + round.place, verdict.text());
  // A session that is lost is lost for all.
  if (told.ok() || told.code() == base::Code::kUnavailable) return verdict;
  return {.failure = {told.code(), -1, "", told.message()}};
}

// Step 3, of the others. They wait for a rank that may wait for the same time twice: to make it, and for reports.
Communicator::Verdict Communicator::follow(const ShrinkRound& round, int decider, const Failure& own) {
  const std::string report = own.code == base::Code::kOk ? std::string(kMade) : encode(own);
  const base::Status told = world_->put(fmt::format("made/{}/{}", round.place, rank_), report);
  if (!told.ok()) return {.failure = own};
  const base::MonotonicTime end = base::monotonic_now() + 2 * policy_.deadline + kNewsTime;
  while (true) {
    const bool is_gone = world_->end_of(world_rank(decider)).has_value();  // before the look
    const auto verdict = world_->look("shrunk/" + round.place, is_gone ? kNewsTime : kLookTime);
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
    (void)world_->wait_for_end(failed.rank, kNewsTime);  // without its end, survivors() leaves it out
  }
  ShrinkRound round;
  for (int number = 0;; ++number) {  // each without a rank that the one before had
    round.place = fmt::format("{}/{}/{}", name_, attempt, number);
    MUSTER_ASSIGN_OR_RETURN(const std::vector<int> left, agree_on_survivors(round, why));
    if (std::find(left.begin(), left.end(), rank_) == left.end()) {
      return base::error(base::Code::kUnavailable,
                         "the other ranks take rank {} for gone, and go on without it (communicator {})",
                         world_->rank(), name_);
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
