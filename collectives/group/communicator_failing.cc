// How a communicator ends: which rank failed and why, and the report to the other ranks.
#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/ranges.h>

#include "collectives/group/communicator.h"

namespace muster::collectives::inline group {
void Communicator::on_ended(const Member& member, bool failed, const std::string& cause) {
  const auto found = std::find(members_.begin(), members_.end(), member.rank);
  if (found == members_.end()) return;
  if (failed) {
    team_->abort().raise({base::Code::kUnavailable, member.rank, member.host,
                          fmt::format("rank {} ({}, pid {}) {}", member.rank, member.host, member.pid, cause)});
    return;
  }
  const int rank = static_cast<int>(found - members_.begin());
  const auto local = std::find(local_members_.begin(), local_members_.end(), rank);
  if (local != local_members_.end()) team_->set_gone(static_cast<int>(local - local_members_.begin()));
}

Failure Communicator::failure() const {
  const AbortRecord& record = team_->abort();
  return record.is_raised() ? record.read() : Failure{};
}

base::Status Communicator::ended() const {
  if (!team_->abort().is_raised()) return base::ok_status();
  const Failure why = failure();
  return {why.code, why.message};
}

base::Status Communicator::detach(base::Status why) {
  if (std::exchange(has_detached_, true)) return why;
  const base::Status detached = registered_->make_private();
  if (detached.ok()) return why;
  return {why.code(),
          fmt::format("{}; late ranks may still write to registered buffers: {}", why.message(), detached.message())};
}

// At the deadline, ranks wait for each other in a chain. Blame the rank at the end of the chain.
Failure Communicator::blame_last(Failure failure) {
  if (failure.code != base::Code::kDeadlineExceeded || failure.rank < 0) return failure;
  world_->report_late(name_, failure.rank);
  const int first = failure.rank;
  for (int hop = 0; hop < size(); ++hop) {
    const std::optional<int> next = world_->late_for(name_, failure.rank);
    if (!next || *next == world_->rank() || *next == first) break;
    failure.rank = *next;
    failure.host = world_->member(*next).host;
  }
  if (failure.rank != first) {
    failure.message +=
        fmt::format("; that rank waits for rank {} ({}), which does not arrive", failure.rank, failure.host);
  }
  if (!blame_silent_host(failure)) blame_host(failure);
  return team_->abort().is_raised() ? team_->abort().read() : failure;
}

// Returns the members on the host `place`, as ranks of the world, ascending.
std::vector<int> Communicator::members_at(const std::string& place) const {
  std::vector<int> there;
  std::ranges::copy_if(members_, std::back_inserter(there),
                       [&](int rank) { return world_->member(rank).place == place; });
  std::ranges::sort(there);
  return there;
}

// Handles a host that does not answer the launcher. All ranks blame the first rank there, whatever rank they wait for.
// But if a rank there has published which rank it waits for, it is alive, and the host is not the cause.
bool Communicator::blame_silent_host(Failure& failure) {
  const std::vector<int> silent = world_->silent_of(members_);
  if (silent.empty()) return false;
  const Member& first = world_->member(std::ranges::min(silent));
  const std::vector<int> there = members_at(first.place);
  if (first.place == world_->member(world_->rank()).place || world_->late_for_any(name_, there)) return false;
  failure.rank = there.front();
  failure.host = first.host;
  failure.message += fmt::format(
      "; {} does not answer the launcher, and its ranks {} do not answer here: check the "
      "host and its network",
      first.host, fmt::join(there, ","));
  return true;
}

// Each rank waits for a different rank of an unreachable host. If none of that host's ranks has published which rank it
// waits for, all blame its first rank.
void Communicator::blame_host(Failure& failure) {
  const std::string& place = world_->member(failure.rank).place;
  if (place == world_->member(world_->rank()).place) return;
  const std::vector<int> on_host = members_at(place);
  if (on_host.size() < 2 || world_->late_for_any(name_, on_host)) return;
  failure.rank = on_host.front();
  failure.message += fmt::format("; none of the ranks {} on {} answers: is the host or its network down?",
                                 fmt::join(on_host, ","), failure.host);
}

// Turns an error into a failure that names the rank and the reason, as far as this rank knows them.
Failure Communicator::explain(const base::Status& status) {
  if (team_->abort().is_raised()) return team_->abort().read();
  const bool is_of_team = team_->failure().message == status.message();
  Failure failure = is_of_team ? team_->failure() : Failure{status.code(), -1, "", status.message()};
  for (const Exchange* exchange : {exchange_.get(), slice_exchange_.get()}) {
    if (is_of_team || exchange == nullptr || exchange->failed_peer() < 0) continue;
    const Peers& peers = exchange == exchange_.get() ? static_cast<const Peers&>(*links_) : *slice_peers_;
    failure.rank = peers.world_rank(exchange->failed_peer());
    failure.host = world_->member(failure.rank).host;
  }
  return add_cause(std::move(failure));
}

// Adds to an error of a link or a deadline what this process knows of the rank that it names.
Failure Communicator::add_cause(Failure failure) {
  if (team_->abort().is_raised()) return team_->abort().read();
  if (failure.code == base::Code::kDeadlineExceeded) return blame_last(failure);
  if (failure.code != base::Code::kUnavailable || failure.rank < 0) return failure;
  // A closed link or lost memory does not say why. So wait for the report of how that rank ended. Perhaps that rank
  // failed because another rank ended, which raises the abort record.
  const auto end = world_->wait_for_end(failure.rank, World::kEndReportTime, members_);
  if (team_->abort().is_raised()) return team_->abort().read();
  if (end) {
    failure.message = fmt::format("rank {} ({}) {}{}", failure.rank, failure.host, end->cause,
                                  end->failed ? "" : " before it had finished its part");
  } else {
    (void)blame_silent_host(failure);  // the kernel breaks links to a silent host
  }
  return failure;
}

base::Status Communicator::fail(const base::Status& status) {
  return end_with(explain(status));
}

base::Status Communicator::end_with(const Failure& failure) {
  world_->note_failure();
  const bool is_ours = team_->abort().raise(failure);
  // Use hosts_, because layout_ is not known yet if forming has failed.
  if (is_ours && hosts_.size() > 1) world_->report_failure(name_, failure);
  return {failure.code, failure.message};
}

}  // namespace muster::collectives::group
