// The part of JobRunner's core for a job whose ranks change while it runs (docs/adr/0044). LiveJob decides.
// Read it in this order: set_live_hosts, start_live, add_live_end, lose_live_host, begin_generation, live_over.
#include <algorithm>
#include <map>
#include <utility>

#include "base/strings.h"
#include "launcherd/plan/rank_table.h"
#include "launcherd/run/job_core.h"
#include "model/rank_env.h"

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

// Whether the job uses nothing of the host.
bool is_gone(HostPhase phase) {
  return phase == HostPhase::kEmpty || phase == HostPhase::kUnused || phase == HostPhase::kFailed ||
         phase == HostPhase::kLost;
}

}  // namespace

base::Status JobRunner::Core::why_not_live() const {
  if (!job_.live) return base::failed_precondition("the job's ranks are fixed: start it with --min-np");
  if (is_ending(phase_)) return base::failed_precondition("the job is ending");
  return base::ok_status();
}

base::Status JobRunner::Core::set_live_hosts(std::vector<model::HostSpec> hosts) {
  MUSTER_RETURN_IF_ERROR(why_not_live());
  if (live_ == nullptr) {
    early_hosts_ = std::move(hosts);
    return base::ok_status();
  }
  std::vector<ElasticHost> listed;
  for (model::HostSpec& host : hosts) {
    const std::string name = model::horovod_hostname(host.name);
    const int slots = host.slots.value_or(1);
    listed.push_back({name, slots});
    model::PlacedHost& known = known_hosts_[name];
    known.host = std::move(host);
    known.slots = slots;
  }
  live_->set_hosts(listed);
  report_live_hosts();  // the caller decides by this report which slots are free
  return base::ok_status();
}

base::Status JobRunner::Core::set_live_size(int min_ranks, std::optional<int> max_ranks) {
  MUSTER_RETURN_IF_ERROR(why_not_live());
  if (live_ == nullptr) {
    early_size_ = {min_ranks, max_ranks};
  } else {
    live_->set_size(min_ranks, max_ranks);
  }
  return base::ok_status();
}

// Call this when the agents were sent their ranks. Numbers of processes are the ranks of generation 0.
void JobRunner::Core::start_live(const std::vector<JobHost*>& by_placed) {
  std::vector<int> agents;
  for (const JobHost* host : by_placed) agents.push_back(host->agent);
  live_ = std::make_unique<LiveJob>(*job_.live, clock_, job_.kill_grace, live_events());
  ends_ = EndCollector(placement_.size, model::OnExit::kWait);
  know_hosts();
  live_->start(placement_, agents, listed_hosts());
  label_output();
  if (const auto size = std::exchange(early_size_, std::nullopt)) live_->set_size(size->first, size->second);
  if (auto hosts = std::exchange(early_hosts_, std::nullopt)) {
    static_cast<void>(set_live_hosts(*std::move(hosts)));  // the job is live and does not end here
  }
}

LiveJob::Events JobRunner::Core::live_events() {
  return {.send = [this](int agent, v1::LauncherMessage message) { agents_->send(agent, std::move(message)); },
          .address_of_first = [this](const std::vector<int>& agents) { return live_address(agents); },
          .peer_of = [this](int agent) { return peer_of(hosts_.at(agent).facts); },
          .rank_table = [this](const ElasticPlan& plan) { return rank_table_of_live(plan); },
          .add_agent = [this](const std::string& host) { return add_live_host(host); },
          .start = [this](const Generation& generation, const std::vector<int>& agents,
                          const std::vector<NewProcess>& processes,
                          const std::string& address) { return start_live(generation, agents, processes, address); },
          .release_agent = [this](int agent) { release_live_host(hosts_.at(agent)); },
          .warn = [this](const std::string& line) { observer_->on_warning(line); },
          .began = [this](const Generation& generation,
                          std::vector<int> former) { begin_generation(generation, std::move(former)); },
          .over = [this](const FinishJob& end) { live_over(end); },
          .lose_host = [this](int agent, const std::string& why) { live_host_lost(hosts_.at(agent), why); },
          .wake = [this](std::optional<base::MonotonicTime> at) { wake_live(at); },
          .changed = [this] { live_changed(); }};
}

// Reports the hosts once the present event has been handled. Many ranks may end in one event.
void JobRunner::Core::live_changed() {
  if (live_ == nullptr || live_report_.armed()) return;
  live_report_ = loop_.after(base::Duration::zero(), [this] { report_live_hosts(); });
}

void JobRunner::Core::report_live_hosts() {
  live_report_.cancel();
  if (is_finished()) return;
  LiveHosts hosts = live_hosts();
  if (hosts == reported_hosts_) return;
  reported_hosts_ = std::move(hosts);
  observer_->on_live_hosts(reported_hosts_);
}

LiveHosts JobRunner::Core::live_hosts() const {
  LiveHosts all{.hosts = {}, .lacks = goes_on_live() ? live_->lacks() : 0};
  std::map<std::string, std::size_t> indexes;  // by the name of the host
  for (const JobHost& host : hosts_) {
    const auto [at, is_new] = indexes.try_emplace(host.name, all.hosts.size());
    if (is_new) all.hosts.push_back({.name = host.name});
    if (!is_gone(host.phase)) all.hosts[at->second].has_agent = true;
    all.hosts[at->second].limit = live_->limit_of(model::horovod_hostname(host.name));
  }
  for (const LiveProcess& process : live_->members().all()) {
    if (!process.has_ended) ++all.hosts[indexes.at(hosts_.at(process.agent).name)].processes;
  }
  for (const std::string& name : live_->excluded_hosts()) {
    const auto known = known_hosts_.find(name);
    const auto at = known == known_hosts_.end() ? indexes.end() : indexes.find(known->second.host.name);
    if (at == indexes.end()) continue;
    all.hosts[at->second].is_excluded = true;
    all.hosts[at->second].usable_from = live_->excluded_until(name);
  }
  return all;
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
  exec_calls_.rank_over(number, model::describe(end));
  if (live_->members().is_stopped(number)) end.kind = model::EndKind::kStopped;
  end.rank = shown_rank(number);
  if (end.rank >= 0) {
    observer_->on_event(end);
    report_to_peers(end);
    ends_.add(end, clock_.now());
    if (live_reason_.empty() && end.failed() && end.kind != model::EndKind::kStopped) {
      live_reason_ = fmt::format("rank {}: {}", end.rank, model::describe(end));
    }
  } else if (!live_->members().has_joined(number) && end.failed() && end.kind != model::EndKind::kStopped) {
    observer_->on_warning(fmt::format("{}: a new process ended before it joined the job: {}{}", end.host,
                                      model::describe(end), end.detail.empty() ? "" : " (" + end.detail + ")"));
  }
  live_->ended(number, end);
  if (!live_->members().is_any_living()) timers_.cancel(JobTimer::kRun);  // --timeout limits only the ranks
}

// Reports the ends of a lost host's processes. The job goes on without them if enough are left.
void JobRunner::Core::lose_live_host(JobHost& host, HostAction how, const std::string& why) {
  const bool goes_on = goes_on_live();
  if (!goes_on) host_failures_.push_back({host.name, why});
  // An agent that was sent no process has left none.
  if (!host.joins || !host.ranks.empty()) end_lost_processes(host, how);
  live_host_lost(host, why);
  if (!goes_on) begin_stop(StopCause::kHostFailed, job_.kill_grace, "a host was lost");
  maybe_finish();
}

void JobRunner::Core::live_host_lost(JobHost& host, const std::string& why) {
  if (goes_on_live()) observer_->on_warning(why);
  if (live_reason_.empty() && host.placed >= 0) live_reason_ = host.name + " was lost";
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

void JobRunner::Core::label_output() {
  std::map<int, int> ranks;  // by number
  for (const LiveProcess& process : live_->members().all()) {
    if (process.rank >= 0) ranks[process.number] = process.rank;
  }
  live_output_.set_ranks(ranks);
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
  placement_ = placement_of(generation.plan);
  place_hosts();
  const std::vector<std::string> now = host_names(placement_);
  began.added = missing_in(before, now);
  began.lost = missing_in(now, before);
  began.placement = placement_;
  const std::vector<int> former_ranks = began.former;
  ends_ = EndCollector(placement_.size, model::OnExit::kWait);
  stderr_tails_.clear();
  live_reason_.clear();
  label_output();
  std::map<int, std::vector<int>> own_ranks;
  for (const JobHost& host : hosts_) own_ranks[host.agent] = shown_ranks(host);
  peer_failures_.begin_generation(own_ranks);
  awaits_collective_ = {generation.number, generation.caused_at};
  live_generation_ = generation.number;
  hang_watch_.progressed();
  world_audit_.begin(placement_.size);
  lateness_ = {};
  observer_->on_event(began);
  announce_new_members(generation, former_ranks);
}

void JobRunner::Core::first_collective(int generation) {
  if (live_ == nullptr) return observer_->on_first_collective(generation);
  if (!awaits_collective_ || awaits_collective_->first != generation) return;
  const auto elapsed = clock_.now() - std::exchange(awaits_collective_, std::nullopt)->second;
  observer_->on_event(model::FirstCollectiveEnded{
      .generation = generation, .elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(elapsed)});
}

// Returns the placement of the plan.
model::Placement JobRunner::Core::placement_of(const ElasticPlan& plan) const {
  model::Placement next;
  next.size = static_cast<int>(plan.size());
  std::map<std::string, int> indexes;
  for (const PlannedSlot& each : plan) {
    const auto [at, is_new] = indexes.try_emplace(each.slot.host, static_cast<int>(next.hosts.size()));
    if (is_new) next.hosts.push_back(known_hosts_.at(each.slot.host));
    next.hosts[static_cast<std::size_t>(at->second)].ranks.push_back({.rank = each.plan.rank,
                                                                      .local_rank = each.plan.local_rank,
                                                                      .local_size = each.plan.local_size,
                                                                      .cross_rank = each.plan.cross_rank,
                                                                      .cross_size = each.plan.cross_size,
                                                                      .host_index = at->second});
  }
  return next;
}

// Several agents may have had one host in turn. The newest one's address holds.
v1::RankTable JobRunner::Core::rank_table_of_live(const ElasticPlan& plan) const {
  const model::Placement next = placement_of(plan);
  return rank_table_of(
      next,
      [&](std::size_t index) {
        std::string address;
        for (const JobHost& host : hosts_) {
          if (host.name == next.hosts[index].host.name) address = rank_address(host.facts, job_);
        }
        return address;
      },
      [](int) { return 0; });
}

// Sets what the job may use of each host now. Hosts of processes that live on may have got further slots. Returns why
// no process can start, for each host whose share is not decided.
std::map<std::string, std::string> JobRunner::Core::set_shares(model::Placement& placement) const {
  std::map<std::string, std::string> undecided;
  if (!options_.live_share) return undecided;
  for (model::PlacedHost& placed : placement.hosts) {
    auto share = options_.live_share(placed.host.name);
    if (share.ok()) {
      placed.share = *std::move(share);
    } else {
      undecided.emplace(placed.host.name, share.status().message());
    }
  }
  return undecided;
}

// Sets the place of each host in placement_.
void JobRunner::Core::place_hosts() {
  for (JobHost& host : hosts_) host.placed = -1;
  for (std::size_t i = 0; i < placement_.hosts.size(); ++i) {
    hosts_.at(live_->members().agent_of_rank(placement_.hosts[i].ranks.front().rank)).placed = static_cast<int>(i);
  }
}

// Reports hosts and processes that are in a generation for the first time.
void JobRunner::Core::announce_new_members(const Generation& generation, const std::vector<int>& former) {
  for (JobHost& host : hosts_) {
    if (host.placed < 0 || std::exchange(host.is_announced, true)) continue;
    observer_->on_event(model::HostUp{host.name, host.agent_link, base::printable(host.facts.hello.containment())});
  }
  std::vector<model::BoundRank> bound;
  for (const PlannedSlot& each : generation.plan) {
    const int rank = each.plan.rank;
    const int number = live_->members().number_of(rank);
    bound.push_back(live_bindings_.at(number));
    bound.back().rank = rank;
    if (former.at(static_cast<std::size_t>(rank)) >= 0) continue;
    const auto pid = live_pids_.extract(number);
    if (!pid.empty()) observer_->on_event(model::RankUp{rank, pid.mapped()});
  }
  const bool is_any_new = std::ranges::any_of(former, [](int rank) { return rank < 0; });
  if (is_any_new) observer_->on_bound(bound);
}

// The root cause is among the ends of the last generation. If it has none, the reason takes its place.
void JobRunner::Core::live_over(const FinishJob& end) {
  const bool is_good = end.end == ElasticEnd::kSucceeded;
  release_live_hosts();
  // If nothing is left to stop, the job ends when its hosts are empty.
  if (!live_->members().is_any_living() && (is_good || ends_.root())) return maybe_finish();
  if (!is_good && !ends_.root()) {
    host_failures_.push_back({"", end.message.empty() ? std::string(name_of(end.end)) : end.message});
    begin_stop(StopCause::kHostFailed, job_.kill_grace, end.message);
    return;
  }
  if (!is_good && !end.message.empty()) observer_->on_warning(end.message);
  begin_stop(StopCause::kPolicy, job_.kill_grace, is_good ? "a rank has ended well" : std::string(name_of(end.end)));
}

}  // namespace muster::launcherd::run
