// The part of JobRunner's core for a job whose ranks change while it runs (docs/adr/0044). LiveJob decides.
// Read it in this order: start_live, add_live_end, lose_live_host, begin_generation, live_over.
#include <algorithm>
#include <map>
#include <utility>

#include "base/strings.h"
#include "launcherd/run/job_core.h"

namespace muster::launcherd::inline run {
namespace {

std::vector<std::string> host_names(const model::Placement& placement) {
  std::vector<std::string> names;
  for (const model::PlacedHost& host : placement.hosts) names.push_back(host.host.name);
  return names;
}

// Returns those of `names` that are not in `list`.
std::vector<std::string> missing_in(const std::vector<std::string>& list, const std::vector<std::string>& names) {
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    if (std::ranges::find(list, name) == list.end()) missing.push_back(name);
  }
  return missing;
}

}  // namespace

// Call this when the agents were sent their ranks. Numbers of processes are the ranks of generation 0.
void JobRunner::Core::start_live(const std::vector<JobHost*>& by_placed) {
  std::vector<int> agents;
  for (const JobHost* host : by_placed) agents.push_back(host->agent);
  live_ = std::make_unique<LiveJob>(*job_.live, clock_, job_.kill_grace, live_events());
  ends_ = EndCollector(placement_.size, model::OnExit::kWait);
  live_->start(placement_, agents);
}

LiveJob::Events JobRunner::Core::live_events() {
  return {.send = [this](int agent, v1::LauncherMessage message) { agents_->send(agent, std::move(message)); },
          .address_of_first = [this](const std::vector<int>& agents) { return live_address(agents); },
          .peer_of = [this](int agent) { return peer_of(hosts_.at(agent).facts); },
          .began = [this](const Generation& generation,
                          std::vector<int> former) { begin_generation(generation, std::move(former)); },
          .over = [this](const FinishJob& end) { live_over(end); },
          .lose_host = [this](int agent, const std::string& why) { live_host_lost(hosts_.at(agent), why); },
          .wake = [this](std::optional<base::MonotonicTime> at) { wake_live(at); }};
}

void JobRunner::Core::wake_live(std::optional<base::MonotonicTime> at) {
  timers_.cancel(JobTimer::kLive);
  if (!at) return;
  timers_.start(JobTimer::kLive, std::max(*at - clock_.now(), base::Duration::zero()), [this] { live_->tick(); });
}

base::Result<std::string> JobRunner::Core::live_address(const std::vector<int>& agents) const {
  std::vector<HostFacts> facts;
  for (const int agent : agents) facts.push_back(hosts_.at(agent).facts);
  return choose_master_address(facts, job_);
}

// Returns the rank that users see: that of the present generation. -1 if the process is not in it.
int JobRunner::Core::shown_rank(int number) const {
  return live_ == nullptr ? number : live_->members().rank_of(number);
}

std::vector<int> JobRunner::Core::shown_ranks(const JobHost& host) const {
  if (live_ == nullptr) return host.ranks;
  std::vector<int> ranks;
  for (const int number : host.ranks) {
    if (const int rank = shown_rank(number); rank >= 0) ranks.push_back(rank);
  }
  return ranks;
}

// `end.rank` is the number of the process.
void JobRunner::Core::add_live_end(model::RankEnd end) {
  const int number = end.rank;
  if (!live_->members().may_run(number)) return;
  if (feed_ != nullptr) feed_->rank_over(number);
  if (live_->members().is_stopped(number)) end.kind = model::EndKind::kStopped;
  end.rank = shown_rank(number);
  if (end.rank >= 0) {
    observer_->on_event(end);
    report_to_peers(end);
    ends_.add(end, clock_.now());
    if (live_reason_.empty() && end.failed() && end.kind != model::EndKind::kStopped) {
      live_reason_ = fmt::format("rank {}: {}", end.rank, model::describe(end));
    }
  }
  live_->ended(number, end);
  if (!live_->members().is_any_living()) timers_.cancel(JobTimer::kRun);  // --timeout limits only the ranks
}

// Reports the ends of a lost host's processes. The job goes on without them if enough are left.
void JobRunner::Core::lose_live_host(JobHost& host, HostAction how, const std::string& why) {
  const bool goes_on = goes_on_live();
  if (!goes_on) host_failures_.push_back({host.name, why});
  end_lost_processes(host, how);
  live_host_lost(host, why);
  if (!goes_on) begin_stop(StopCause::kHostFailed, job_.kill_grace, "a host was lost");
  maybe_finish();
}

void JobRunner::Core::live_host_lost(JobHost& host, const std::string& why) {
  if (goes_on_live()) observer_->on_warning(why);
  if (live_reason_.empty()) live_reason_ = host.name + " was lost";
  for (const int number : host.ranks) {
    if (!live_->members().may_run(number)) continue;
    if (feed_ != nullptr) feed_->rank_over(number);
    model::RankEnd end;
    end.rank = shown_rank(number);
    end.host = host.name;
    end.kind = model::EndKind::kHostLost;
    end.detail = why;
    end.at = clock_.now();
    if (end.rank < 0) continue;
    observer_->on_event(end);
    report_to_peers(end);
    ends_.add(std::move(end), clock_.now());
  }
  // A lost agent never reports that it has tried to start its ranks. It may be the last one that was missing.
  if (hosts_.note_tried(host)) proceed(RunEvent::kRanksTried);
  live_->host_lost(host.agent);
}

// Everything that counts by rank begins anew.
void JobRunner::Core::begin_generation(const Generation& generation, std::vector<int> former) {
  model::GenerationBegan began{.number = generation.number,
                               .from = placement_.size,
                               .to = static_cast<int>(generation.plan.size()),
                               .reason = live_reason_.empty() ? std::string(name_of(generation.cause)) : live_reason_,
                               .former = std::move(former)};
  began.elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - generation.caused_at);
  const std::vector<std::string> before = host_names(placement_);
  placement_ = next_placement(generation.plan);
  const std::vector<std::string> now = host_names(placement_);
  began.added = missing_in(before, now);
  began.lost = missing_in(now, before);
  began.placement = placement_;
  ends_ = EndCollector(placement_.size, model::OnExit::kWait);
  stderr_tails_.clear();
  live_reason_.clear();
  std::map<int, int> ranks;  // by number
  for (const LiveProcess& process : live_->members().all()) {
    if (process.rank >= 0) ranks[process.number] = process.rank;
  }
  live_output_.set_ranks(ranks);
  std::map<int, std::vector<int>> own_ranks;
  for (const JobHost& host : hosts_) own_ranks[host.agent] = shown_ranks(host);
  peer_failures_.begin_generation(own_ranks);
  observer_->on_event(began);
}

// Returns the placement of the plan, on hosts that the job has.
model::Placement JobRunner::Core::next_placement(const ElasticPlan& plan) {
  model::Placement next;
  next.size = static_cast<int>(plan.size());
  for (JobHost& host : hosts_) host.next_placed = -1;
  for (const PlannedSlot& each : plan) {
    JobHost& host = hosts_.at(live_->members().agent_of_rank(each.plan.rank));
    if (host.next_placed < 0) {
      host.next_placed = static_cast<int>(next.hosts.size());
      next.hosts.push_back(placement_.hosts.at(static_cast<std::size_t>(host.placed)));
      next.hosts.back().ranks.clear();
    }
    next.hosts[static_cast<std::size_t>(host.next_placed)].ranks.push_back({.rank = each.plan.rank,
                                                                            .local_rank = each.plan.local_rank,
                                                                            .local_size = each.plan.local_size,
                                                                            .cross_rank = each.plan.cross_rank,
                                                                            .cross_size = each.plan.cross_size,
                                                                            .host_index = host.next_placed});
  }
  for (JobHost& host : hosts_) host.placed = host.next_placed;
  return next;
}

// The root cause is among the ends of the last generation. If it has none, the reason takes its place.
void JobRunner::Core::live_over(const FinishJob& end) {
  const bool is_good = end.end == ElasticEnd::kSucceeded;
  // If nothing is left to stop, the job ends when its hosts are empty.
  if (!live_->members().is_any_living() && (is_good || ends_.root())) return;
  if (!is_good && !ends_.root()) {
    host_failures_.push_back({"", end.message.empty() ? std::string(name_of(end.end)) : end.message});
    begin_stop(StopCause::kHostFailed, job_.kill_grace, end.message);
    return;
  }
  if (!is_good && !end.message.empty()) observer_->on_warning(end.message);
  begin_stop(StopCause::kPolicy, job_.kill_grace, is_good ? "a rank has ended well" : std::string(name_of(end.end)));
}

}  // namespace muster::launcherd::run
