// The part of JobRunner's core for processes and hosts that join a job whose ranks change (docs/adr/0044). LiveJob
// orders them. A host that joins takes the steps of every other host, but the job does not wait for it, and goes on if
// it fails. Read it in this order: add_live_host, prepare_live_host, live_host_prepared, start_live, then the failures.
#include <algorithm>
#include <utility>

#include "base/ids.h"
#include "base/strings.h"
#include "launcherd/run/job_core.h"
#include "model/rank_env.h"

namespace muster::launcherd::inline run {
namespace {

// The bootstrap has the same time limit and knows how far the host came. With this margin it reports first.
constexpr std::chrono::milliseconds kBootstrapReportsFirst{500};
constexpr std::size_t kJoinStageTokenBytes = 8;

bool has_left(HostPhase phase) {
  return phase == HostPhase::kUnused || phase == HostPhase::kFailed || phase == HostPhase::kLost ||
         phase == HostPhase::kDraining || phase == HostPhase::kEmpty;
}

// The agent looks for the file of torch's @record by the number of the process.
void set_error_file(const std::string& session_dir, v1::LaunchRank& rank) {
  for (v1::EnvVar& variable : *rank.mutable_environment()) {
    if (variable.name() != "TORCHELASTIC_ERROR_FILE") continue;
    variable.set_value(model::torch_error_file(session_dir, rank.rank()));
  }
}

// Returns the part of the host's orders that is about `processes`, by their numbers.
v1::Launch launch_of(const v1::Launch& planned, const std::vector<NewProcess>& processes,
                     const std::string& session_dir) {
  v1::Launch launch = planned;
  launch.clear_ranks();
  launch.clear_live_members();
  launch.clear_world();            // PMI and PMIx serve the ranks of the start only
  launch.clear_horovod_address();  // the generation's store is in BeginGeneration
  launch.clear_horovod_port();
  for (int i = 0; i < planned.ranks_size(); ++i) {
    const auto found = std::ranges::find(processes, planned.ranks(i).rank(), &NewProcess::rank);
    if (found == processes.end()) continue;
    v1::LaunchRank& rank = *launch.add_ranks();
    rank = planned.ranks(i);
    rank.set_rank(found->number);
    rank.set_input(false);  // the launcher's stdin belongs to the ranks of the start
    rank.set_pty(false);
    set_error_file(session_dir, rank);
    v1::LiveMember& member = *launch.add_live_members();
    member = planned.live_members(i);
    member.set_number(found->number);
  }
  return launch;
}

}  // namespace

// Keeps the hosts that may join, by the names of their slots.
void JobRunner::Core::know_hosts() {
  for (const model::PlacedHost& placed : placement_.hosts) {
    model::PlacedHost host = placed;
    host.ranks.clear();
    known_hosts_.insert_or_assign(model::horovod_hostname(placed.host.name), std::move(host));
  }
  for (const model::HostSpec& host : job_.placement.hosts) {
    known_hosts_.try_emplace(model::horovod_hostname(host.name),
                             model::PlacedHost{.host = host, .slots = host.slots.value_or(1), .ranks = {}});
  }
}

// Returns all hosts and slots that the user gave. Empty if the ranks are not placed slot by slot, or by another owner
// of the slots.
std::vector<ElasticHost> JobRunner::Core::listed_hosts() const {
  const model::PlacementRequest& request = job_.placement;
  if (options_.shares || request.oversubscribe || request.map_by != model::MapBy::kSlot) return {};
  std::vector<ElasticHost> listed;
  for (const model::PlacedHost& placed : placement_.hosts) {
    listed.push_back(
        {model::horovod_hostname(placed.host.name), std::max(placed.slots, static_cast<int>(placed.ranks.size()))});
  }
  const int usual = request.ranks_per_node > 0 ? request.ranks_per_node : 1;
  for (const model::HostSpec& host : request.hosts) {
    // Skip hosts of the placement, and entries that are the same host as one of them.
    if (std::ranges::any_of(hosts_, [&](const JobHost& each) { return each.name == host.name; })) continue;
    listed.push_back({model::horovod_hostname(host.name), host.slots.value_or(usual)});
  }
  const auto capped = make_elastic_plan(listed, 1, placement_.size);
  const bool is_same = capped.ok() && std::ranges::all_of(*capped, [&](const PlannedSlot& each) {
                         const model::PlacedRank& rank = placement_.rank(each.plan.rank);
                         const auto& host = placement_.hosts[static_cast<std::size_t>(rank.host_index)];
                         return model::horovod_hostname(host.host.name) == each.slot.host;
                       });
  return is_same ? listed : std::vector<ElasticHost>();
}

base::Result<int> JobRunner::Core::add_live_host(const std::string& name) {
  const auto known = known_hosts_.find(name);
  if (known == known_hosts_.end()) return base::not_found("{}: the job does not know this host", name);
  const model::HostSpec& spec = known->second.host;
  const bool is_local = model::is_localhost(spec);
  MUSTER_RETURN_IF_ERROR(
      agents_->add({.target = {.name = spec.name, .user = spec.user, .port = spec.port}, .is_local = is_local}));
  JobHost& host = hosts_.add(spec.name, is_local);
  liveness_.add();
  host.placed = -1;
  host.joins = true;
  host.is_announced = false;
  waiting_hosts_.push_back(host.agent);
  // Let the caller finish first: a job that ends now needs no agent.
  live_starts_[host.agent] = loop_.after(base::Duration::zero(), [this] { start_waiting_hosts(); });
  return host.agent;
}

// Two agents of one job on one host would search for each other's processes. So a new one starts when the former one
// has reported that no process is left.
void JobRunner::Core::start_waiting_hosts() {
  for (const int agent : std::exchange(waiting_hosts_, {})) {
    JobHost& host = hosts_.at(agent);
    const bool must_wait = std::ranges::any_of(hosts_, [&](const JobHost& other) {
      return other.agent != agent && other.name == host.name && !has_left(other.phase);
    });
    if (must_wait) {
      waiting_hosts_.push_back(agent);
    } else if (host.phase == HostPhase::kBootstrapping) {
      start_live_host(host);
    }
  }
}

void JobRunner::Core::start_live_host(JobHost& host) {
  for (const JobHost& former : hosts_) {
    const bool is_idle = former.phase == HostPhase::kDraining || former.phase == HostPhase::kEmpty;
    if (former.agent != host.agent && former.name == host.name && is_idle) agents_->leave(former.agent);
  }
  observer_->on_note(fmt::format("{}: joins the job", host.name));
  live_starts_[host.agent] = loop_.after(job_.start_timeout + kBootstrapReportsFirst,
                                         [this, agent = host.agent] { live_host_overdue(agent); });
  agents_->start_added(host.agent);
}

void JobRunner::Core::live_host_overdue(int agent) {
  JobHost& host = hosts_.at(agent);
  const std::string why = why_not_in_time(host);
  if (host.phase.apply(HostEvent::kStartOverdue) == HostAction::kReportLate) live_start_failed(host, why);
}

// The job goes on without the host. The driver black-lists it.
void JobRunner::Core::live_start_failed(JobHost& host, const std::string& why) {
  live_starts_.erase(host.agent);
  live_stagings_.erase(host.agent);
  agents_->drop(host.agent);
  if (goes_on_live()) observer_->on_warning(why);
  if (hosts_.note_tried(host)) proceed(RunEvent::kRanksTried);
  live_->host_lost(host.agent);
  maybe_finish();
}

// Returns another host of the job that is this one under another name. nullptr if there is none.
const JobHost* JobRunner::Core::same_host(const JobHost& host) const {
  for (const JobHost& other : hosts_) {
    const bool is_there = !has_left(other.phase) && !is_waiting(other.phase);
    if (other.agent == host.agent || !is_there) continue;
    if (find_same_hosts({other.facts, host.facts}).back() == 0) return &other;
  }
  return nullptr;
}

void JobRunner::Core::prepare_live_host(JobHost& host) {
  live_starts_.erase(host.agent);
  if (const JobHost* const other = same_host(host); other != nullptr) {
    return handle(
        host, HostEvent::kStartFailed,
        fmt::format("{} and {} are the same host, so {} cannot join: name it once", other->name, host.name, host.name));
  }
  const auto chosen = choose_interface(host.facts.hello, job_);
  if (is_network_chosen(job_) && !chosen.ok()) {
    return handle(host, HostEvent::kStartFailed, fmt::format("{}: {}", host.name, chosen.status().message()));
  }
  v1::LauncherMessage message;
  message.mutable_prepare()->set_master_address(master_address_);
  message.mutable_prepare()->set_session_secret(session_secret_);
  message.mutable_prepare()->set_runtime(std::string(model::runtime_word(job_.runtime)));
  agents_->send(host.agent, std::move(message));
}

void JobRunner::Core::live_host_prepared(JobHost& host) {
  // Only this host leaves. The ranks that run would wait with it.
  if (options_.live_share) {
    if (const auto share = options_.live_share(host.name); !share.ok()) {
      return handle(host, HostEvent::kStartFailed, share.status().message());
    }
  }
  if (!job_.stages.empty() || !job_.stage_env.empty()) return stage_live_host(host);
  live_->agent_up(host.agent);
}

void JobRunner::Core::stage_live_host(JobHost& host) {
  const int agent = host.agent;
  auto staging = std::make_unique<JobStaging>(
      loop_,
      JobStaging::Plan{.paths = job_.stages,
                       .environment = job_.stage_env,
                       .hosts = {{agent, host.name, ""}},
                       .token = base::random_hex(kJoinStageTokenBytes),
                       .never_staged = options_.never_staged},
      Staging::Events{.send = [this](int to, v1::LauncherMessage message) { agents_->send(to, std::move(message)); },
                      .say = [this](const std::string& line) { observer_->on_note(line); },
                      .note = [this](const std::string& line) { observer_->on_note(line); },
                      // The Staging is calling, so destroy it later.
                      .done =
                          [this, agent](const base::Status& status) {
                            live_starts_[agent] = loop_.after(
                                base::Duration::zero(), [this, agent, status] { live_host_staged(agent, status); });
                          }});
  JobStaging& started = *(live_stagings_[agent] = std::move(staging));
  started.start();
}

void JobRunner::Core::live_host_staged(int agent, base::Status status) {
  if (status.ok()) staged_environment_ = live_stagings_.at(agent)->environment();
  live_stagings_.erase(agent);
  if (!status.ok()) return handle(hosts_.at(agent), HostEvent::kStartFailed, status.message());
  live_->agent_up(agent);
}

// Returns what processes that live on are bound to. A process that is not in the plan has the local rank -1.
std::vector<model::BoundRank> JobRunner::Core::running_ranks(const ElasticPlan& plan) const {
  std::vector<model::BoundRank> running;
  for (const LiveProcess& process : live_->members().all()) {
    const auto bound = live_bindings_.find(process.number);
    if (process.has_ended || bound == live_bindings_.end()) continue;
    const PlannedSlot* const planned = find_slot(plan, process.slot);
    running.push_back(bound->second);
    running.back().local_rank = planned == nullptr ? -1 : planned->plan.local_rank;
  }
  return running;
}

// Orders agents that are up to start these processes. Their hosts are in the plan.
base::Status JobRunner::Core::start_live(const Generation& generation, const std::vector<int>& agents,
                                         const std::vector<NewProcess>& processes, const std::string& address) {
  model::Placement placement = placement_of(generation.plan);
  const std::map<std::string, std::string> undecided = set_shares(placement);
  std::vector<HostFacts> facts;
  for (const int agent : agents) facts.push_back(hosts_.at(agent).facts);
  if (facts.size() != placement.hosts.size()) return base::unavailable("a host of the next generation cannot join");
  MUSTER_ASSIGN_OR_RETURN(LaunchPlan plan, plan_launch(job_, placement, facts,
                                                       {.job_id = options_.job_id,
                                                        .number = generation.number,
                                                        .restarts = options_.restarts,
                                                        .running = running_ranks(generation.plan),
                                                        .trace = options_.trace},
                                                       address, environment_));
  for (const std::string& warning : plan.warnings) observer_->on_note(warning);
  for (std::size_t i = 0; i < agents.size(); ++i) {
    std::vector<NewProcess> here;
    std::ranges::copy_if(processes, std::back_inserter(here),
                         [&](const NewProcess& each) { return each.agent == agents[i]; });
    if (here.empty()) continue;
    JobHost& host = hosts_.at(agents[i]);
    if (host.phase != HostPhase::kPrepared && host.phase != HostPhase::kLaunched) {
      // Its agent has ended its session since the plan was made.
      live_starts_[host.agent] =
          loop_.after(base::Duration::zero(),
                      [this, agent = host.agent, first = here.front().number] { live_->refused(agent, first); });
      continue;
    }
    if (const auto why = undecided.find(host.name); why != undecided.end()) {
      observer_->on_warning(why->second);
      live_starts_[host.agent] =
          loop_.after(base::Duration::zero(),
                      [this, agent = host.agent, first = here.front().number] { live_->cannot_start(agent, first); });
      continue;
    }
    for (const NewProcess& each : here)
      live_bindings_[each.number] = plan.bindings.at(static_cast<std::size_t>(each.rank));
    order_processes(host, launch_of(plan.hosts[i], here, facts[i].hello.session_dir()), here);
  }
  return base::ok_status();
}

void JobRunner::Core::order_processes(JobHost& host, v1::Launch launch, const std::vector<NewProcess>& processes) {
  std::vector<int> numbers;
  std::map<int, int> ranks;  // by number
  for (const NewProcess& each : processes) {
    numbers.push_back(each.number);
    ranks[each.number] = each.rank;
  }
  live_output_.add_ranks(ranks);
  host.ranks.insert(host.ranks.end(), numbers.begin(), numbers.end());
  v1::LauncherMessage message;
  if (host.phase == HostPhase::kLaunched) {
    agents_->expect_more_output(host.agent, numbers);
    message.mutable_add_world()->set_first(numbers.front());
    *message.mutable_add_world()->mutable_launch() = std::move(launch);
  } else {
    agents_->expect_output(host.agent, numbers);
    host.phase.apply(HostEvent::kLaunch);
    launch.set_joins(true);
    *message.mutable_launch() = std::move(launch);
    set_environment(*message.mutable_launch());
  }
  agents_->send(host.agent, std::move(message));
}

// Ends the start of a host on which no process of the job has started.
void JobRunner::Core::release_live_host(JobHost& host) {
  live_starts_.erase(host.agent);
  live_stagings_.erase(host.agent);
  switch (host.phase.apply(HostEvent::kStartEnded)) {
    case HostAction::kDrop:
      return agents_->drop(host.agent);
    case HostAction::kLeave:
      return agents_->leave(host.agent);
    default:
      return;
  }
}

void JobRunner::Core::release_live_hosts() {
  if (live_ == nullptr) return;
  waiting_hosts_.clear();
  for (JobHost& host : hosts_) {
    const bool is_starting =
        is_waiting(host.phase) || host.phase == HostPhase::kUp || host.phase == HostPhase::kPrepared;
    if (host.joins && is_starting) release_live_host(host);
  }
}

}  // namespace muster::launcherd::run
