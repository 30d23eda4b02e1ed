// All of GenerationPlanner.
// Read it in this order: next, note_failure, replace, fill, place.
#include "launcherd/run/generation_planner.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::launcherd::inline run {
namespace {

// A host is replaced once it has ended this many generations in a row. The first time, the program may be at fault.
constexpr int kFailuresOfBadHost = 2;

// Names of hosts do not depend on upper and lower case.
bool is_same_name(const std::string& a, const std::string& b) {
  return base::lower(a) == base::lower(b);
}

std::vector<std::string> names_of_hosts(const std::vector<model::HostSpec>& hosts) {
  std::vector<std::string> names;
  for (const model::HostSpec& host : hosts) names.push_back(host.name);
  return names;
}

// Returns the names in `these` that are not in `others`.
std::vector<std::string> names_only_in(const std::vector<std::string>& these, const std::vector<std::string>& others) {
  std::vector<std::string> only;
  std::ranges::copy_if(these, std::back_inserter(only),
                       [&](const std::string& name) { return std::ranges::find(others, name) == others.end(); });
  return only;
}

model::PlacementRequest without_hosts(model::PlacementRequest request) {
  request.hosts.clear();
  request.ranks_per_node = 0;     // each member has its number of slots
  request.oversubscribe = false;  // the slots of a member are at least its ranks
  return request;
}

}  // namespace

GenerationPlanner::GenerationPlanner(const model::JobSpec& job, const model::Placement& first, int counted)
    : policy_(job.failure),
      max_restarts_(job.max_restarts),
      request_(without_hosts(job.placement)),
      wanted_(first.size),
      usual_slots_(first.hosts.empty() ? 1 : first.hosts.front().slots),
      last_(first),
      counted_(counted) {
  for (const model::PlacedHost& placed : first.hosts) {
    members_.push_back(placed.host);
    members_.back().slots = std::max(placed.slots, static_cast<int>(placed.ranks.size()));
  }
  for (const std::vector<model::HostSpec>* list : {&job.placement.hosts, &policy_.spares}) {
    for (const model::HostSpec& host : *list) {
      const bool is_known = std::ranges::any_of(
          spares_, [&](const model::HostSpec& spare) { return is_same_name(spare.name, host.name); });
      if (!is_known && !is_member(host.name)) spares_.push_back(host);
    }
  }
}

bool GenerationPlanner::is_member(const std::string& name) const {
  return std::ranges::any_of(members_, [&](const model::HostSpec& host) { return is_same_name(host.name, name); });
}

int GenerationPlanner::slots() const {
  int sum = 0;
  for (const model::HostSpec& host : members_) sum += *host.slots;
  return sum;
}

// Returns whether the job can go on without this member.
bool GenerationPlanner::has_substitute(const std::string& name) const {
  if (!model::may_change_hosts(policy_)) return false;
  if (!spares_.empty()) return true;
  const auto member = std::ranges::find(members_, name, &model::HostSpec::name);
  return policy_.on_failure == model::OnFailure::kShrink && member != members_.end() &&
         static_cast<int>(members_.size()) > policy_.min_hosts && slots() - *member->slots >= policy_.min_ranks;
}

void GenerationPlanner::note_failure(const std::string& host) {
  in_a_row_ = host == last_failed_ ? in_a_row_ + 1 : 1;
  last_failed_ = host;
}

// Puts a spare in the member's place. Without a spare, the member only leaves.
void GenerationPlanner::replace(const std::string& name) {
  const auto member = std::ranges::find(members_, name, &model::HostSpec::name);
  if (member == members_.end()) return;
  if (spares_.empty()) {
    members_.erase(member);
    return;
  }
  model::HostSpec spare = spares_.front();
  spares_.erase(spares_.begin());
  if (!spare.slots) spare.slots = member->slots;
  *member = std::move(spare);
}

// Adds spares until the members have this many slots.
void GenerationPlanner::fill(int wanted) {
  while (slots() < wanted && !spares_.empty()) {
    members_.push_back(spares_.front());
    spares_.erase(spares_.begin());
    members_.back().slots = members_.back().slots.value_or(usual_slots_);
  }
}

base::Result<NextGeneration> GenerationPlanner::next(const GenerationEnd& end) {
  const std::vector<std::string> before = names_of_hosts(members_);
  std::vector<std::string> bad = end.bad_hosts;
  std::erase_if(spares_, [&](const model::HostSpec& spare) { return std::ranges::find(bad, spare.name) != bad.end(); });
  if (!bad.empty() && !model::may_change_hosts(policy_)) {
    return base::failed_precondition("{} failed: let a spare host take over by --on-failure replace --spares HOST",
                                     base::join(bad, ", "));
  }
  const bool is_counted = bad.empty() && !end.has_progress;
  if (is_counted && counted_ >= max_restarts_) {
    return base::failed_precondition("{} of {} restarts are used up (--max-restarts)", counted_, max_restarts_);
  }
  if (end.has_progress) last_failed_.clear();
  if (is_counted) {
    ++counted_;
    note_failure(end.failed_host);
    if (in_a_row_ >= kFailuresOfBadHost && has_substitute(end.failed_host)) bad.push_back(end.failed_host);
  }
  for (const std::string& name : bad) replace(name);
  if (!bad.empty()) in_a_row_ = 0;
  if (model::may_change_hosts(policy_)) fill(wanted_);
  MUSTER_ASSIGN_OR_RETURN(NextGeneration next, place(before, bad));
  next.is_counted = is_counted;
  return next;
}

base::Result<NextGeneration> GenerationPlanner::place(const std::vector<std::string>& before,
                                                      const std::vector<std::string>& bad) {
  const std::vector<std::string> now = names_of_hosts(members_);
  // Ranks stay where they are, which may be a place that the user or launcherd has chosen.
  if (now == before) return NextGeneration{.placement = last_};
  const int ranks = std::min(wanted_, slots());
  const std::string lost = base::join(bad, ", ");
  if (ranks < wanted_ && policy_.on_failure != model::OnFailure::kShrink) {
    return base::failed_precondition(
        "{} failed and no spare host is left: give more by --spares, or let fewer ranks go on by --on-failure shrink",
        lost);
  }
  if (ranks < policy_.min_ranks) {
    return base::failed_precondition("{} failed: {} of at least {} ranks (--min-np) could go on; give more --spares",
                                     lost, ranks, policy_.min_ranks);
  }
  if (static_cast<int>(members_.size()) < policy_.min_hosts) {
    return base::failed_precondition("{} failed: {} of at least {} hosts are left; give more --spares", lost,
                                     members_.size(), policy_.min_hosts);
  }
  model::PlacementRequest request = request_;
  request.hosts = members_;
  request.np = ranks;
  NextGeneration next;
  MUSTER_ASSIGN_OR_RETURN(next.placement, model::place(request));
  next.request = std::move(request);
  last_ = next.placement;
  next.added = names_only_in(now, before);
  next.lost = names_only_in(before, now);
  return next;
}

}  // namespace muster::launcherd::run
