// The part of JobRunner's core that brings hosts up and starts their ranks.
// Read it in this order: start, agent_up, maybe_prepare, prepared, stage, ask_shares, launch, send_launch. job_late.cc
// has what happens to hosts that do not come up.
#include <algorithm>
#include <unordered_map>

#include "base/ids.h"
#include "base/strings.h"
#include "launcherd/plan/store_tree.h"
#include "launcherd/run/job_core.h"
#include "launcherd/run/same_hosts.h"
#include "model/job_placement.h"
#include "model/torchrun_command.h"
#include "proto/convert.h"

namespace muster::launcherd::inline run {
namespace {

constexpr std::size_t kSessionSecretBytes = 32;  // agent.proto
constexpr std::size_t kStageTokenBytes = 8;

// nullptr if an earlier launcherd sent no Prepare, or the agent has not answered it.
const v1::Prepared* was_prepared(const std::vector<v1::AgentMessage>& history) {
  const auto found = std::ranges::find_if(history, &v1::AgentMessage::has_prepared);
  return found == history.end() ? nullptr : &found->prepared();
}

}  // namespace

std::unordered_map<std::string, int> places_by_name(const model::Placement& placement) {
  std::unordered_map<std::string, int> index_of;
  for (const model::PlacedHost& placed : placement.hosts) {
    index_of.emplace(placed.host.name, static_cast<int>(index_of.size()));
  }
  return index_of;
}

JobRunner::Core::Core(base::Loop& loop, const base::Clock& clock, JobSetup setup, std::shared_ptr<JobAgents> agents)
    : loop_(loop),
      clock_(clock),
      job_(std::move(setup.job)),
      placement_(std::move(setup.placement)),
      options_(std::move(setup.options)),
      environment_(std::move(setup.environment)),
      sink_(setup.sink),
      observer_(setup.observer),
      ends_(placement_.size, job_.on_exit, model::service_ranks(job_.roles)),
      agents_(std::move(agents)) {
  timers_.on_enter(JobTimer::kLaunch, [this] { watch_launch(); });
  timers_.on_enter(JobTimer::kRun, [this] {
    if (job_.timeout) timers_.start(JobTimer::kRun, *job_.timeout, [this] { stop(StopCause::kTimeout); });
  });
}

// Moves the job to its next phase. The caller performs the action.
RunAction JobRunner::Core::advance(RunEvent event) {
  const auto change = next_phase(phase_, event);
  if (!change) return RunAction::kIgnore;
  phase_ = change->to;
  timers_.enter(phase_);
  phase_ == JobPhase::kRunning ? hang_watch_.start() : hang_watch_.stop();
  return change->action;
}

// Moves the job to its next phase and performs the action of the start.
void JobRunner::Core::proceed(RunEvent event) {
  switch (advance(event)) {
    case RunAction::kPrepare:
      return prepare_hosts();
    case RunAction::kStage:
      return stage();
    case RunAction::kShare:
      return ask_shares();
    case RunAction::kReportRunning:
      return observer_->on_running();
    default:
      return;  // launch(), begin_stop(), stop() and finish() perform the other actions
  }
}

base::Status JobRunner::Core::start() {
  started_at_ = clock_.now();
  std::vector<AgentHost> hosts;
  for (const model::PlacedHost& placed : placement_.hosts) {
    const model::HostSpec& spec = placed.host;
    const JobHost& host = hosts_.add(spec.name, model::is_localhost(spec));
    hosts.push_back(
        {.target = {.name = spec.name, .user = spec.user, .port = spec.port}, .is_local = host.facts.local});
  }
  add_reserve(hosts);
  liveness_.start();
  if (options_.resumes) hosts_.set_first_of(options_.resumed_first_of);
  if (hosts_.has_first_of()) {
    MUSTER_RETURN_IF_ERROR(place_merged(job_));
    for (const JobHost& host : hosts_) {
      hosts[static_cast<std::size_t>(host.agent)].is_unused = host.phase == HostPhase::kUnused;
    }
  }
  MUSTER_RETURN_IF_ERROR(
      agents_->start(std::move(hosts), job_.live ? static_cast<OutputSink*>(&live_output_) : &activity_, this));
  limit_start();
  timers_.repeat(JobTimer::kTick, kPingPeriod, [this] { liveness_.tick(suspension_.is_on(), is_ending(phase_)); });
  report_progress();
  return base::ok_status();
}

void JobRunner::Core::agent_failed(int agent, const std::string& message) {
  if (is_finished()) return;
  handle(hosts_.at(agent), HostEvent::kStartFailed, message);
}

void JobRunner::Core::agent_started(int agent) {
  if (is_finished()) return;
  handle(hosts_.at(agent), HostEvent::kAgentStarted, "");
}

void JobRunner::Core::agent_up(int agent, AgentUp up) {
  JobHost& host = hosts_.at(agent);
  if (is_ending(phase_) || !is_waiting(host.phase)) return;
  if (!options_.build_id.empty() && up.hello.build_id() != options_.build_id) {
    handle(host, HostEvent::kStartFailed,
           fmt::format("{}: the agent there is of build {}, this launcher is of build {}: remove the "
                       "cached agent on {} and start again",
                       host.name, base::printable(up.hello.build_id()), options_.build_id, host.name));
    return;
  }
  host.facts.hello = std::move(up.hello);
  host.facts.launcher_addresses = std::move(up.launcher_addresses);
  host.facts.host_address = up.host_address;
  host.agent_link = up.link;
  host.history = std::move(up.history);
  host.has_launched = up.has_launched;
  // Ping first, because the offset of the agent's clock must be known before the agent's history is processed.
  if (host.has_launched) liveness_.ping(host);
  host.phase.apply(HostEvent::kAgentUp);
  observer_->on_note(fmt::format(
      "{}: up, {} cores, containment {}{}{}", host.name, host.facts.hello.cores_size(), host.facts.hello.containment(),
      host.facts.hello.containment_note().empty() ? "" : ": ", base::printable(host.facts.hello.containment_note())));
  if (host.joins) return prepare_live_host(host);
  report_progress();
  maybe_prepare();
}

void JobRunner::Core::maybe_prepare() {
  if (phase_ != JobPhase::kConnecting) return;
  if (may_leave_out() && !are_members_settled()) return;
  const bool are_up = hosts_.are_up();
  if (!are_up && host_failures_.empty()) return;
  if (std::ranges::any_of(hosts_,
                          [&](const JobHost& host) { return host.has_launched && !liveness_.knows_clock(host); })) {
    return;
  }
  if (!are_up) {
    if (!hosts_.is_any_waiting()) {
      begin_stop(StopCause::kHostFailed, std::chrono::milliseconds(0), "a host did not start");
    }
    return;
  }
  // The job was stopped before any launcherd sent ranks to its hosts. Do not start ranks only to stop them.
  if (stop_.is_early() && !hosts_.is_any_launched_before()) {
    begin_stop(stop_.early(), std::chrono::milliseconds(0), "the job was stopped");
    return;
  }
  const base::Status merged = merge_same_hosts();
  if (!merged.ok()) {
    host_failures_.push_back({"", merged.message()});
    begin_stop(StopCause::kHostFailed, std::chrono::milliseconds(0), merged.message());
    return;
  }
  proceed(RunEvent::kHostsUp);
}

base::Status JobRunner::Core::two_names(const JobHost& one, const JobHost& other) {
  return base::failed_precondition(
      "{} and {} are the same host, and a job whose ranks live on (--min-np) can use only one name of a host: name one "
      "of them alone with -H, or name the host once in launcherd's list",
      one.name, other.name);
}

// Merges entries of the host list that turn out to be one host, as if the list had named it twice. If launcherd has
// placed the ranks, they stay on the hosts that it chose.
base::Status JobRunner::Core::merge_same_hosts() {
  // Return if an earlier launcherd has merged the entries.
  if (hosts_.has_first_of()) return base::ok_status();
  hosts_.set_first_of(find_used_same_hosts());
  model::JobSpec job = job_;
  bool any = false;
  for (JobHost& host : hosts_) {
    if (hosts_.is_first(host)) continue;
    any = true;
    const JobHost& kept = hosts_.first_of(host);
    // The owner of the slots counts them by these names while the job runs.
    if (options_.live_share) return two_names(kept, host);
    model::rename_host(host.name, kept.name, job);
    observer_->on_warning(fmt::format("{} and {} are the same host; their slots are added", kept.name, host.name));
  }
  if (!any) return base::ok_status();
  MUSTER_RETURN_IF_ERROR(place_merged(job));
  for (const JobHost& host : hosts_) {
    if (host.phase == HostPhase::kUnused && !host.is_left_out) agents_->leave(host.agent);
  }
  return base::ok_status();
}

// Returns find_same_hosts() of the hosts that have ranks. Each other host stands for itself, because it may not be up.
std::vector<int> JobRunner::Core::find_used_same_hosts() const {
  std::vector<int> used;
  std::vector<HostFacts> facts;
  std::vector<int> first_of;
  for (const JobHost& host : hosts_) {
    first_of.push_back(host.agent);
    if (host.placed < 0) continue;
    used.push_back(host.agent);
    facts.push_back(host.facts);
  }
  const std::vector<int> firsts = find_same_hosts(facts);
  for (std::size_t i = 0; i < used.size(); ++i) {
    first_of[static_cast<std::size_t>(used[i])] = used[static_cast<std::size_t>(firsts[i])];
  }
  return first_of;
}

// Places the ranks on the hosts that remain. `job` must name each host once.
base::Status JobRunner::Core::place_merged(const model::JobSpec& job) {
  auto placement =
      options_.shares ? base::Result<model::Placement>(merged(placement_, hosts_.first_of())) : model::place(job);
  if (!placement.ok()) return placement.status();
  placement_ = std::move(*placement);
  const auto index_of = places_by_name(placement_);
  for (JobHost& host : hosts_) {
    const auto found = index_of.find(host.name);
    if (hosts_.is_first(host) && found != index_of.end()) {
      host.placed = found->second;
      continue;
    }
    // The job does not need this entry: another entry is the same host, or the hosts before this one have enough slots.
    host.phase.apply(HostEvent::kNotNeeded);
    host.placed = -1;
  }
  return base::ok_status();
}

// Returns false if a host has no interface that the user's choice allows. The job is then being stopped.
bool JobRunner::Core::check_networks() {
  if (!is_network_chosen(job_)) return true;
  bool all = true;
  for (const JobHost& host : hosts_) {
    const auto chosen = choose_interface(host.facts.hello, job_);
    if (host.placed < 0 || chosen.ok()) continue;
    host_failures_.push_back({host.name, fmt::format("{}: {}", host.name, chosen.status().message())});
    all = false;
  }
  if (!all) begin_stop(StopCause::kHostFailed, std::chrono::milliseconds(0), "a host has no such network");
  return all;
}

// Returns the secret of this start of the job. Hosts that an earlier launcherd prepared have it already, so reuse it.
std::string JobRunner::Core::make_session_secret() const {
  for (const JobHost& host : hosts_) {
    const v1::Prepared* const before = was_prepared(host.history);
    if (before != nullptr && !before->session_secret().empty()) return before->session_secret();
  }
  std::string secret(kSessionSecretBytes, '\0');
  base::random_bytes(secret.data(), secret.size());
  return secret;
}

void JobRunner::Core::prepare_hosts() {
  std::vector<const HostFacts*> facts;
  for (const JobHost* host : hosts_.by_placed(placement_.hosts.size())) facts.push_back(&host->facts);
  if (!check_networks()) return;
  const auto master = choose_master_address(HostFactsList(std::move(facts)), job_);
  if (!master.ok()) {
    host_failures_.push_back({hosts_.at(0).name, master.status().message()});
    begin_stop(StopCause::kHostFailed, std::chrono::milliseconds(0), master.status().message());
    return;
  }
  master_address_ = *master;
  session_secret_ = make_session_secret();
  const auto tree = store_tree(job_, placement_.hosts.size(), environment_);
  const bool serves_local_torch = serves_torch_on_each_host(job_, environment_);
  for (const JobHost& host : hosts_) {
    if (host.placed < 0 || was_prepared(host.history) != nullptr) continue;
    v1::LauncherMessage message;
    message.mutable_prepare()->set_master_address(master_address_);
    message.mutable_prepare()->set_session_secret(session_secret_);
    message.mutable_prepare()->set_runtime(std::string(model::runtime_word(job_.runtime)));
    if (job_.runtime == model::Runtime::kTensorflow) {  // each rank of TensorFlow is a server and needs a port
      const auto ranks = placement_.hosts[static_cast<std::size_t>(host.placed)].ranks.size();
      message.mutable_prepare()->set_hold_ports(static_cast<int>(ranks));
    }
    if (tree) prepare_for_tree(*tree, host.placed, serves_local_torch, *message.mutable_prepare());
    if (host.placed == 0) {
      v1::Prepare& prepare = *message.mutable_prepare();
      prepare.set_hold_master_port(true);
      prepare.set_serve_torch(job_.torch_agent_store || model::serves_torchrun(job_));
      prepare.set_serve_horovod(true);
      for (const model::PlacedHost& placed : placement_.hosts) {
        v1::HorovodHost& entry = *prepare.add_horovod_hosts();
        entry.set_name(model::horovod_hostname(placed.host.name));
        entry.set_local_size(static_cast<int>(placed.ranks.size()));
      }
    }
    agents_->send(host.agent, std::move(message));
  }
  for (JobHost& host : hosts_) {
    const v1::Prepared* const before = was_prepared(host.history);
    if (before != nullptr) prepared(host, v1::Prepared(*before));
  }
}

void JobRunner::Core::prepared(JobHost& host, const v1::Prepared& answer) {
  if (is_ending(phase_) || host.phase != HostPhase::kUp) return;
  if (!answer.error().empty()) {
    handle(host, HostEvent::kStartFailed, fmt::format("{}: {}", host.name, base::printable(answer.error())));
    return;
  }
  host.facts.prepared = answer;
  host.phase.apply(HostEvent::kPrepared);
  observer_->on_note(fmt::format("{}: interface {} ({})", host.name, answer.interface(), answer.address()));
  if (host.joins) return live_host_prepared(host);
  if (hosts_.are_prepared()) proceed(RunEvent::kHostsPrepared);
}

// Stages files before ranks start. If an earlier attempt has staged them, or an earlier launcherd has sent ranks, the
// files are there already. An environment is looked for by each attempt, because Launch must name it.
void JobRunner::Core::stage() {
  const bool is_done = options_.is_staged || hosts_.is_any_launched_before();
  JobStaging::Plan plan{.environment = job_.stage_env,
                        .token = base::random_hex(kStageTokenBytes),
                        .never_staged = options_.never_staged};
  if (!is_done) plan.paths = job_.stages;
  for (const JobHost& host : hosts_) {
    if (host.placed < 0 || host.has_launched) continue;
    plan.hosts.push_back({host.agent, host.name, host.facts.prepared.address()});
  }
  if (plan.hosts.empty() || (plan.paths.empty() && plan.environment.empty())) {
    proceed(RunEvent::kFilesStaged);
    return;
  }
  staging_ = std::make_unique<JobStaging>(
      loop_, std::move(plan),
      Staging::Events{
          .send = [this](int agent, v1::LauncherMessage message) { agents_->send(agent, std::move(message)); },
          .say = [this](const std::string& line) { observer_->on_remark(line); },
          .note = [this](const std::string& line) { observer_->on_note(line); },
          .done = [this](const base::Status& status) { staged(status); }});
  staging_->start();
}

void JobRunner::Core::staged(const base::Status& status) {
  // staging_ is calling this function, so destroy it later.
  timers_.start(JobTimer::kStaged, base::Duration::zero(), [this, status] {
    if (status.ok()) staged_environment_ = staging_->environment();
    staging_.reset();
    if (status.ok()) {
      proceed(RunEvent::kFilesStaged);
      return;
    }
    host_failures_.push_back({"", status.message()});
    begin_stop(StopCause::kHostFailed, std::chrono::milliseconds(0), "files could not be staged");
  });
}

void JobRunner::Core::set_environment(v1::Launch& launch) const {
  if (staged_environment_) *launch.mutable_staged_environment() = *staged_environment_;
}

void JobRunner::Core::ask_shares() {
  if (!options_.shares) return launch();
  const bool were_merged = options_.resumes && !options_.resumed_first_of.empty();
  std::vector<KnownHost> known;
  for (const JobHost& host : hosts_) {
    // Skip an entry whose ranks another entry has. No agent was requested for it.
    if (were_merged && host.phase == HostPhase::kUnused) continue;
    const v1::Hello& hello = host.facts.hello;
    const std::string kept_as = hosts_.is_first(host) ? "" : hosts_.first_of(host).name;
    known.push_back({host.name, proto::node_shape_of(hello), host.has_launched, host_identity(hello), kept_as});
  }
  shares_gate_.reset();
  options_.shares(known, [this, pass = shares_gate_.pass()](const base::Result<model::Placement>& decided) {
    if (!pass || phase_ != JobPhase::kSharing) return;
    if (decided.ok()) {
      store_shares(*decided);
      launch();
      return;
    }
    const bool is_first = options_.attempt == 0 && !options_.resumes;
    const bool is_refused = is_first && decided.status().code() == base::Code::kInvalidArgument;
    host_failures_.push_back({"", decided.status().message()});
    begin_stop(is_refused ? StopCause::kRefused : StopCause::kHostFailed, std::chrono::milliseconds(0),
               decided.status().message());
  });
}

// Stores the decided shares. Entries that are one host get one joined share.
void JobRunner::Core::store_shares(const model::Placement& decided) {
  const auto places = places_by_name(decided);
  for (const JobHost& host : hosts_) {
    const auto from = places.find(host.name);
    const JobHost& first = hosts_.first_of(host);
    if (from == places.end() || first.placed < 0) continue;
    const std::optional<model::HostShare>& given = decided.hosts[static_cast<std::size_t>(from->second)].share;
    std::optional<model::HostShare>& share = placement_.hosts[static_cast<std::size_t>(first.placed)].share;
    share = first.agent == host.agent ? given : joined(std::move(share), given);
  }
}

base::Result<LaunchPlanner> JobRunner::Core::plan(const std::vector<JobHost*>& by_placed,
                                                  const Attempt& attempt) const {
  std::vector<const HostFacts*> facts;
  for (const JobHost* host : by_placed) facts.push_back(&host->facts);
  return LaunchPlanner::make(job_, placement_, HostFactsList(std::move(facts)), attempt, master_address_, environment_);
}

void JobRunner::Core::launch() {
  const std::vector<JobHost*> by_placed = hosts_.by_placed(placement_.hosts.size());
  const Attempt attempt{
      .job_id = options_.job_id, .number = options_.attempt, .restarts = options_.restarts, .trace = options_.trace};
  auto planned = plan(by_placed, attempt);
  // Ranks that run already continue, even if their hosts have changed.
  if (!planned.ok() && hosts_.is_any_launched_before()) {
    for (const JobHost* host : by_placed) {
      if (host->has_launched) placement_.hosts[static_cast<std::size_t>(host->placed)].share.reset();
    }
    planned = plan(by_placed, attempt);
  }
  const bool is_first = options_.attempt == 0 && !options_.resumes;
  if (!planned.ok()) {
    const base::Status& why = planned.status();
    host_failures_.push_back({"", why.message()});
    // At the first start, an invalid argument is a mistake of the command line. At a later attempt, the host has
    // changed.
    const bool is_refused = is_first && why.code() == base::Code::kInvalidArgument;
    begin_stop(is_refused ? StopCause::kRefused : StopCause::kHostFailed, std::chrono::milliseconds(0), why.message());
    return;
  }
  send_launch(*planned, by_placed, is_first);
  if (job_.live) start_live(by_placed);
  for (JobHost& host : hosts_) replay_history(host);
  if (!stop_.is_early()) return;
  stop(stop_.early());
  if (stop_.is_early_at_once()) stop(stop_.early());
}

void JobRunner::Core::send_launch(const LaunchPlanner& plan, const std::vector<JobHost*>& by_placed, bool is_first) {
  advance(RunEvent::kPlanned);
  const std::vector<int> readers = model::reading_ranks(job_.input, placement_.size);
  if (!readers.empty()) {
    feed_ = std::make_unique<InputFeed>(
        readers, input_,
        [this](const std::vector<int>& ranks, std::string_view bytes, bool ends) { send_input(ranks, bytes, ends); });
  }
  if (is_first) {  // later ones would be the same
    for (const std::string& warning : plan.warnings()) observer_->on_warning(warning);
  }
  observer_->on_bound(plan.bindings());
  if (job_.live) {
    for (const model::BoundRank& bound : plan.bindings()) live_bindings_[bound.rank] = bound;
  }
  for (std::size_t i = 0; i < by_placed.size(); ++i) {
    JobHost& host = *by_placed[i];
    assign_ranks(host);
    if (i == 0) send_window();
    if (host.has_launched) continue;
    v1::LauncherMessage message;
    *message.mutable_launch() = plan.launch(i);
    set_environment(*message.mutable_launch());
    agents_->send(host.agent, std::move(message));
  }
}

// Limits the wait for ranks to start. A file system that does not answer blocks the start of a host's ranks, and the
// agent cannot interrupt it. Each started rank restarts the timer, because many ranks may need more than one timeout.
void JobRunner::Core::watch_launch() {
  timers_.start(JobTimer::kLaunch, job_.start_timeout, [this] { launch_timed_out(); });
}

void JobRunner::Core::launch_timed_out() {
  for (const JobHost& host : hosts_) {
    if (host.has_tried_all || host.phase != HostPhase::kLaunched || liveness_.is_suspect(host)) continue;
    host_failures_.push_back(
        {host.name, fmt::format("{}: {} of {} ranks started, and no other within {} s: check that the file system of "
                                "the program and of its folder answers there, or allow more by --start-timeout",
                                host.name, host.started, host.ranks.size(),
                                std::chrono::duration_cast<std::chrono::seconds>(job_.start_timeout).count())});
  }
  if (host_failures_.empty()) return watch_launch();  // only silent hosts remain; they fail when their lease ends
  begin_stop(StopCause::kHostFailed, std::chrono::milliseconds(0), "a host did not start its ranks");
}

// Assigns the host its ranks. Its agent has them already, or the caller sends them now.
void JobRunner::Core::assign_ranks(JobHost& host) {
  for (const model::PlacedRank& rank : placement_.hosts[static_cast<std::size_t>(host.placed)].ranks) {
    host.ranks.push_back(rank.rank);
  }
  agents_->expect_output(host.agent, host.ranks);
  host.phase.apply(HostEvent::kLaunch);
}

// Processes the messages that the agent has sent to an earlier launcherd, or while no launcherd listened.
void JobRunner::Core::replay_history(JobHost& host) {
  for (const v1::AgentMessage& message : std::exchange(host.history, {})) {
    if (is_finished()) return;
    if (!message.has_prepared()) process(host, message);
  }
}

}  // namespace muster::launcherd::run
