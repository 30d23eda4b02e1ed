// All of GenerationPlanner.
// Read it in this order: next, start_without, note_failure, leave_out, replace, fill, trim, place; then offer, set_time
// and restore.
#include "launcherd/run/generation_planner.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/strings.h"
#include "model/host_ranges.h"

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
  const std::set<std::string> known(others.begin(), others.end());
  std::vector<std::string> only;
  std::ranges::copy_if(these, std::back_inserter(only), [&](const std::string& name) { return !known.contains(name); });
  return only;
}

// Returns how many slots of a host the job may use. `own` is all that the host has.
int usable_slots(int own, const model::PlacementRequest& request) {
  const int each = request.ranks_per_node;
  if (each == 0) return own;
  return request.oversubscribe ? each : std::min(own, each);
}

bool has_same_slots(const std::vector<model::HostSpec>& these, const std::vector<model::HostSpec>& others) {
  return std::ranges::equal(these, others, [](const model::HostSpec& a, const model::HostSpec& b) {
    return a.name == b.name && a.slots == b.slots;
  });
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
      cooldown_(job.failure.failed_host_cooldown),
      lease_(job.lease),
      request_(without_hosts(job.placement)),
      wanted_(first.size),
      usual_slots_(first.hosts.empty() ? 1 : usable_slots(first.hosts.front().slots, job.placement)),
      last_(first),
      counted_(counted) {
  for (const model::PlacedHost& placed : first.hosts) {
    members_.push_back(placed.host);
    members_.back().slots = std::max(usable_slots(placed.slots, job.placement), static_cast<int>(placed.ranks.size()));
  }
  std::set<std::string> known;  // in lower case
  for (const model::HostSpec& member : members_) known.insert(base::lower(member.name));
  for (const std::vector<model::HostSpec>* list : {&job.placement.hosts, &job.failure.spares}) {
    for (const model::HostSpec& host : *list) {
      if (!known.insert(base::lower(host.name)).second) continue;
      spares_.push_back(host);
      if (host.slots) spares_.back().slots = usable_slots(*host.slots, job.placement);
    }
  }
}

void GenerationPlanner::restore(const GenerationState& state) {
  counted_ = state.counted;
  wanted_ = state.wanted;
  failed_ = state.failed;
  last_failed_ = state.last_failed;
  in_a_row_ = state.in_a_row;
}

void GenerationPlanner::offer(std::vector<model::HostSpec> hosts) {
  is_of_pool_ = true;
  spares_ = std::move(hosts);
  std::erase_if(spares_, [this](const model::HostSpec& host) { return is_left_out(host.name) || !host.slots; });
  // The job has only the slots that its ranks use, so that other jobs may have the rest.
  for (model::HostSpec& member : members_) {
    const auto placed =
        std::ranges::find_if(last_.hosts, [&](const model::PlacedHost& each) { return each.host.name == member.name; });
    if (placed != last_.hosts.end()) member.slots = static_cast<int>(placed->ranks.size());
  }
}

bool GenerationPlanner::is_left_out(const std::string& name) const {
  return std::ranges::any_of(failed_, [&](const model::FailedHost& host) { return is_same_name(host.name, name); });
}

std::optional<base::WallTime> GenerationPlanner::next_return() const {
  std::optional<base::WallTime> first;
  for (const model::FailedHost& host : failed_) {
    if (host.usable_from && (!first || *host.usable_from < *first)) first = host.usable_from;
  }
  return first;
}

void GenerationPlanner::set_time(base::WallTime now) {
  now_ = now;
  std::erase_if(failed_, [now](const model::FailedHost& host) { return host.usable_from && *host.usable_from <= now; });
  for (const model::HostSpec& host : resting_) {
    if (!is_left_out(host.name)) spares_.push_back(host);
  }
  std::erase_if(resting_, [this](const model::HostSpec& host) { return !is_left_out(host.name); });
}

// Leaves a failed host out, unless its cool-down is over already because the job has waited for hosts.
void GenerationPlanner::leave_out(const std::string& name, const GenerationEnd& end) {
  model::FailedHost failed{.name = name};
  if (cooldown_ && !end.never_back.contains(name)) {
    // Ranks may still run on a host that was not searched. Its agent ends them when the lease is over.
    const base::Duration rest = end.unsearched.contains(name) ? std::max(*cooldown_, lease_) : *cooldown_;
    failed.usable_from = end.at + std::chrono::duration_cast<base::WallTime::duration>(rest);
  }
  if (failed.usable_from && *failed.usable_from <= now_) return;
  const auto reason = end.reasons.find(name);
  failed.reason = reason != end.reasons.end() ? reason->second : "its ranks ended the job twice in a row";
  failed_.push_back(std::move(failed));
  model::HostSpec host{.name = name};
  const auto member = std::ranges::find(members_, name, &model::HostSpec::name);
  const auto spare =
      std::ranges::find_if(spares_, [&](const model::HostSpec& each) { return is_same_name(each.name, name); });
  if (member == members_.end() && spare != spares_.end()) host = *spare;
  if (member != members_.end()) host = *member;
  if (member != members_.end() && spare != spares_.end()) *host.slots += spare->slots.value_or(0);
  if (!is_of_pool_) resting_.push_back(std::move(host));
  std::erase_if(spares_, [&](const model::HostSpec& each) { return is_same_name(each.name, name); });
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
  if (std::ranges::any_of(spares_, [this](const model::HostSpec& spare) { return !is_member(spare.name); }))
    return true;
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
  const auto found =
      std::ranges::find_if(spares_, [this](const model::HostSpec& each) { return !is_member(each.name); });
  if (found == spares_.end()) {
    members_.erase(member);
    return;
  }
  model::HostSpec spare = *found;
  spares_.erase(found);
  // With more slots, the spare would take the ranks of the hosts after it. Other jobs may use the rest of a pool's
  // host.
  const int own = spare.slots.value_or(*member->slots);
  spare.slots = std::min(own, *member->slots);
  *member = spare;
  if (is_of_pool_ || own == *spare.slots) return;
  spare.slots = own - *spare.slots;
  spares_.push_back(std::move(spare));
}

// Adds spares in their order until the members have this many slots. A spare that is a member gives it further slots.
void GenerationPlanner::fill(int wanted) {
  while (slots() < wanted && !spares_.empty()) {
    const int missing = wanted - slots();
    model::HostSpec spare = spares_.front();
    spares_.erase(spares_.begin());
    spare.slots = spare.slots.value_or(usual_slots_);
    if (is_of_pool_) spare.slots = std::min(*spare.slots, missing);
    const auto member = std::ranges::find_if(
        members_, [&](const model::HostSpec& host) { return is_same_name(host.name, spare.name); });
    if (member == members_.end()) {
      members_.push_back(std::move(spare));
    } else {
      *member->slots += *spare.slots;
    }
  }
}

// Takes slots from the last members until this many are left.
void GenerationPlanner::trim(int wanted) {
  while (!members_.empty() && slots() > wanted) {
    int& last = *members_.back().slots;
    const int surplus = slots() - wanted;
    if (surplus >= last) {
      members_.pop_back();
    } else {
      last -= surplus;
    }
  }
}

base::Result<NextGeneration> GenerationPlanner::next(const GenerationEnd& end) {
  const std::vector<model::HostSpec> before = members_;
  std::vector<std::string> bad = end.bad_hosts;
  if (!bad.empty() && !model::may_change_hosts(policy_)) {
    return base::failed_precondition("{} failed: let a spare host take over by --on-failure replace --spares HOST",
                                     model::short_host_list(bad));
  }
  const bool is_counted = bad.empty() && !end.has_progress && !end.is_resize;
  if (is_counted && counted_ >= max_restarts_) {
    return base::failed_precondition("{} of {} restarts are used up (--max-restarts)", counted_, max_restarts_);
  }
  if (end.has_progress) last_failed_.clear();
  if (is_counted) {
    ++counted_;
    note_failure(end.failed_host);
    if (in_a_row_ >= kFailuresOfBadHost && has_substitute(end.failed_host)) bad.push_back(end.failed_host);
  }
  for (const std::string& name : bad) leave_out(name, end);
  for (const std::string& name : bad) replace(name);
  if (!bad.empty()) in_a_row_ = 0;
  if (end.is_resize) trim(wanted_);
  if (model::may_change_hosts(policy_)) fill(wanted_);
  const bool may_have_fewer = end.is_resize || policy_.on_failure == model::OnFailure::kShrink;
  MUSTER_ASSIGN_OR_RETURN(NextGeneration next, place(before, bad, may_have_fewer));
  // A job that replaces hosts keeps its size, so a resize that found too few slots ends here.
  if (end.is_resize && policy_.on_failure == model::OnFailure::kReplace) wanted_ = next.placement.size;
  next.is_counted = is_counted;
  return next;
}

base::Result<NextGeneration> GenerationPlanner::start_without(const GenerationEnd& end, bool keeps_size) {
  const std::vector<model::HostSpec> before = members_;
  for (const std::string& name : end.bad_hosts) leave_out(name, end);
  for (const std::string& name : end.bad_hosts) replace(name);
  fill(wanted_);
  if (slots() < (keeps_size ? wanted_ : 1)) {
    return base::resource_exhausted(
        "-np {} needs {} slots, but the {} hosts that are up have {}; leave -np out, so that each slot gets a rank, or "
        "name more hosts by --spares",
        wanted_, wanted_, members_.size(), slots());
  }
  model::FailurePolicy policy = policy_;
  policy_ = model::FailurePolicy{.min_ranks = policy.min_ranks};
  auto next = place(before, end.bad_hosts, true);
  policy_ = std::move(policy);
  // Only a job that may shrink takes back later what it lost.
  if (next.ok() && policy_.on_failure != model::OnFailure::kShrink) wanted_ = next->placement.size;
  return next;
}

base::Result<NextGeneration> GenerationPlanner::place(const std::vector<model::HostSpec>& before,
                                                      const std::vector<std::string>& bad, bool may_have_fewer) {
  // Ranks stay where they are, which may be a place that the user or launcherd has chosen.
  if (has_same_slots(members_, before)) return NextGeneration{.placement = last_};
  const int ranks = std::min(wanted_, slots());
  const std::string lost = bad.empty() ? "" : model::short_host_list(bad) + " failed: ";
  const std::string_view advice = is_of_pool_ ? "add hosts to launcherd's list" : "give more --spares";
  if (ranks < wanted_ && !may_have_fewer) {
    return base::resource_exhausted(
        "{} failed and no {} host is left: {}, or let fewer ranks go on by --on-failure shrink",
        model::short_host_list(bad), is_of_pool_ ? "free" : "spare", is_of_pool_ ? advice : "give more by --spares");
  }
  if (ranks < policy_.min_ranks || ranks == 0) {
    return base::resource_exhausted("{}{} of at least {} ranks (--min-np) could go on; {}", lost, ranks,
                                    policy_.min_ranks, advice);
  }
  if (static_cast<int>(members_.size()) < policy_.min_hosts) {
    return base::resource_exhausted("{}{} of at least {} hosts are left; {}", lost, members_.size(), policy_.min_hosts,
                                    advice);
  }
  model::PlacementRequest request = request_;
  request.hosts = members_;
  request.np = ranks;
  NextGeneration next;
  MUSTER_ASSIGN_OR_RETURN(next.placement, model::place(request));
  next.request = std::move(request);
  last_ = next.placement;
  next.added = names_only_in(names_of_hosts(members_), names_of_hosts(before));
  next.lost = names_only_in(names_of_hosts(before), names_of_hosts(members_));
  return next;
}

}  // namespace muster::launcherd::run
