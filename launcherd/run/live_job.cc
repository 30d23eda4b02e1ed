// All of LiveJob.
// Read it in this order: start, the events, carry_out, advance, start_processes, prepare_store, maybe_begin.
#include "launcherd/run/live_job.h"

#include <algorithm>
#include <csignal>
#include <random>
#include <set>
#include <utility>
#include <variant>

#include "base/strings.h"
#include "model/exit_report.h"
#include "model/rank_env.h"

namespace muster::launcherd::inline run {
namespace {

// A change of ranks that takes longer is explained to the user.
constexpr std::chrono::seconds kReminderTime{5};

constexpr int kAborted = 128 + SIGABRT;

ElasticLimits limits_of(const model::ElasticSpec& spec, int np) {
  ElasticLimits limits;
  limits.np = np;
  limits.min_np = spec.min_ranks;
  limits.max_np = spec.max_ranks.value_or(np);
  limits.reset_limit = spec.reset_limit;
  limits.elastic_timeout = spec.elastic_timeout;
  limits.late_time = std::max<base::Duration>(limits.late_time, spec.elastic_timeout);
  if (spec.cooldown)
    limits.cooldown = {std::chrono::seconds(spec.cooldown->first), std::chrono::seconds(spec.cooldown->second)};
  return limits;
}

// Returns the ends of those processes of a lost host that are in the present generation.
std::vector<model::RankEnd> lost_ends(const std::vector<LiveProcess*>& processes) {
  std::vector<model::RankEnd> ends;
  for (const LiveProcess* const process : processes) {
    if (process->rank < 0) continue;
    model::RankEnd& end = ends.emplace_back();
    end.rank = process->rank;
    end.host = process->slot.host;
    end.kind = model::EndKind::kHostLost;
  }
  return ends;
}

}  // namespace

LiveJob::LiveJob(const model::ElasticSpec& spec, const base::Clock& clock, std::chrono::milliseconds kill_grace,
                 Events events)
    : spec_(spec),
      clock_(clock),
      kill_grace_(kill_grace),
      events_(std::move(events)),
      min_ranks_(spec.min_ranks),
      is_capped_(!spec.max_ranks) {}

void LiveJob::start(const model::Placement& placement, const std::vector<int>& agents,
                    const std::vector<ElasticHost>& listed) {
  std::vector<ElasticHost> hosts;
  for (std::size_t i = 0; i < placement.hosts.size(); ++i) {
    const model::PlacedHost& host = placement.hosts[i];
    const std::string name = model::horovod_hostname(host.host.name);
    agents_[name] = agents[i];
    hosts.push_back({name, static_cast<int>(host.ranks.size())});
  }
  store_agent_ = agents.front();
  for (int number = 0; number < placement.size; ++number) {
    const model::PlacedRank& rank = placement.rank(number);
    const auto host = static_cast<std::size_t>(rank.host_index);
    members_.add({.number = number,
                  .agent = agents[host],
                  .slot = {hosts[host].name, rank.local_rank},
                  .rank = number,
                  .has_joined = true});
  }
  driver_ = std::make_unique<ElasticDriver>(limits_of(spec_, placement.size), now(),
                                            [generator = std::mt19937(std::random_device()())]() mutable {
                                              return std::uniform_real_distribution<double>(0, 1)(generator);
                                            });
  driver_->set_hosts(std::move(hosts), now());
  driver_->take_actions();  // begins generation 0, whose processes the caller starts
  // Generation 0 is not held, so that programs without Horovod's keys start, too.
  for (int rank = 0; rank < placement.size; ++rank) driver_->on_first_put(0, rank, now());
  if (!listed.empty()) driver_->set_hosts(listed, now());
  carry_out();
}

void LiveJob::tick() {
  if (is_over_) return;
  driver_->tick(now());
  maybe_remind();
  carry_out();
}

void LiveJob::set_hosts(const std::vector<ElasticHost>& hosts) {
  if (is_over_) return;
  driver_->set_hosts(hosts, now());
  if (std::exchange(is_capped_, false)) driver_->set_size(min_ranks_, std::nullopt, now());
  carry_out();
}

void LiveJob::set_size(int min_ranks, std::optional<int> max_ranks) {
  if (is_over_) return;
  min_ranks_ = min_ranks;
  is_capped_ = false;
  driver_->set_size(min_ranks, max_ranks, now());
  carry_out();
}

void LiveJob::checked_in(int number) {
  const LiveProcess* const process = members_.find(number);
  if (is_over_ || process == nullptr || process->has_ended) return;
  driver_->on_rank_and_size(process->slot, now());
  carry_out();
}

void LiveJob::put_first(int number) {
  const LiveProcess* const process = members_.find(number);
  if (is_over_ || process == nullptr || process->has_ended || !planned_) return;
  const PlannedSlot* const slot = find_slot(planned_->generation.plan, process->slot);
  if (slot == nullptr) return;
  // A failure before the store is open must find the new processes unready: the next plan starts others in their place.
  if (!planned_->port) return planned_->early_puts.push_back(number);
  driver_->on_first_put(planned_->generation.number, slot->plan.rank, now());
  carry_out();
}

void LiveJob::ended(int number, const model::RankEnd& end) {
  LiveProcess* const process = members_.find(number);
  if (process == nullptr || std::exchange(process->has_ended, true) || is_over_) return;
  if (process->rank >= 0) report_over({end});
  const bool was_stopped = process->is_stopped || end.kind == model::EndKind::kStopped;
  // The driver decides alone about processes that are not in the present generation. It also decides about SIGABRT, by
  // which a peer's failure may end a process.
  const bool is_plain = process->rank >= 0 && end.status() != kAborted;
  if (is_plain && !process->is_stopped && end.failed()) {
    remember_failure(fmt::format("rank {} on {}: {}", process->rank, process->slot.host, model::describe(end)));
  }
  if (is_plain && !process->is_stopped && (was_stopped || end.failed())) end_host(process->agent);
  // A process that was stopped has not done its work, even if it ends with 0.
  const int exit_code = was_stopped ? std::max(end.status(), 1) : end.status();
  driver_->on_exit(process->slot, {.exit_code = exit_code, .caused_by_us = process->is_stopped}, now());
  repeat_questions({process->slot});
  carry_out();
}

void LiveJob::agent_up(int agent) {
  if (starting_.erase(agent) == 0 || is_over_) return;
  advance();
  carry_out();
}

void LiveJob::refused(int agent, int first) {
  fail_from(agent, first, {.exit_code = 1, .caused_by_us = true});
}

void LiveJob::cannot_start(int agent, int first) {
  fail_from(agent, first, {.exit_code = 1});
}

void LiveJob::fail_from(int agent, int first, SlotExit exit) {
  if (is_over_) return;
  for (LiveProcess* const process : members_.living_on(agent)) {
    if (process->number >= first) process_failed(*process, exit);
  }
  carry_out();
}

void LiveJob::host_lost(int agent) {
  starting_.erase(agent);
  unused_.erase(agent);
  const std::vector<LiveProcess*> living = members_.living_on(agent);
  for (LiveProcess* const process : living) process->has_ended = true;
  if (is_over_ || living.empty()) return;
  // Survivors may wait for a key of the lost store, and would never come back.
  if (agent == store_agent_) {
    for (const int other : members_.living_agents()) {
      v1::LauncherMessage message;
      message.mutable_store_lost();
      events_.send(other, std::move(message));
    }
  }
  report_over(lost_ends(living));
  std::vector<ElasticSlot> slots;
  for (const LiveProcess* const process : living) slots.push_back(process->slot);
  remember_failure(fmt::format("host {} was lost", slots.front().host));
  driver_->on_host_lost(slots.front().host, now());
  repeat_questions(slots);
  carry_out();
}

// Processes that still join the present generation learn at once that its world cannot form. Processes that have joined
// learn which ranks have failed. The kernel breaks a connection to a silent host only after 30 s.
void LiveJob::report_over(const std::vector<model::RankEnd>& ends) {
  if (ends.empty()) return;
  v1::GenerationOver over;
  over.set_generation(present_);
  for (const model::RankEnd& end : ends) {
    if (!end.failed()) continue;
    v1::EndedRank& failed = *over.add_failed();
    failed.set_rank(end.rank);
    failed.set_failed(true);
    failed.set_cause(base::valid_utf8(model::describe_to_peers(end)));
  }
  if (std::exchange(is_generation_over_, true) && over.failed().empty()) return;
  for (const auto& [name, agent] : agents_) {
    if (members_.living_on(agent).empty()) continue;
    v1::LauncherMessage message;
    *message.mutable_generation_over() = over;
    events_.send(agent, std::move(message));
  }
}

// Ends the other processes of a host on which one has failed: the host will be black-listed. Their peers notice it at
// once. Otherwise peers would wait for them until Gloo's timeout, 30 s, because a process that asks for new numbers
// leaves its old connections open (horovod 0.28.1).
void LiveJob::end_host(int agent) {
  v1::LauncherMessage message;
  v1::EndRanks& order = *message.mutable_end_ranks();
  order.set_grace_ms(kill_grace_.count());
  for (LiveProcess* const process : members_.living_on(agent)) {
    if (process->is_sent && !std::exchange(process->is_stopped, true)) order.add_ranks(process->number);
  }
  if (!order.ranks().empty()) events_.send(agent, std::move(message));
}

// The driver may believe that a generation runs whose store is still being opened. If a process of it ends now, the
// others do not ask again, because their agents still hold their first questions.
void LiveJob::repeat_questions(const std::vector<ElasticSlot>& ended) {
  if (!planned_ || !planned_->release) return;
  const ElasticPlan plan = planned_->generation.plan;
  const bool is_hit =
      std::ranges::any_of(ended, [&](const ElasticSlot& slot) { return find_slot(plan, slot) != nullptr; });
  if (is_hit) repeat_questions();
}

void LiveJob::repeat_questions() {
  const ElasticPlan plan = planned_->generation.plan;
  for (const PlannedSlot& each : plan) {
    if (members_.living(each.slot) != nullptr) driver_->on_rank_and_size(each.slot, now());
  }
}

void LiveJob::stop() {
  is_over_ = true;
  for (const LiveProcess& process : members_.all()) {
    if (!process.is_sent) members_.find(process.number)->has_ended = true;
  }
  planned_.reset();
  events_.wake(std::nullopt);
}

void LiveJob::carry_out() {
  if (std::exchange(is_working_, true)) return;  // the outer call goes on
  for (auto actions = driver_->take_actions(); !actions.empty() && !is_over_; actions = driver_->take_actions()) {
    for (ElasticAction& action : actions) {
      if (is_over_) break;
      std::visit([this](auto& each) { carry_out(std::move(each)); }, action);
    }
  }
  is_working_ = false;
  if (events_.changed) events_.changed();
  if (is_over_) return;
  release_idle_agents();
  auto wake = driver_->deadline();
  if (remind_at_ && (!wake || *remind_at_ < *wake)) wake = remind_at_;
  events_.wake(wake);
}

// A failure that is not followed by another generation soon is shown, with what the job waits for.
void LiveJob::remember_failure(std::string what) {
  if (remind_at_) return;
  failure_ = std::move(what);
  remind_at_ = clock_.now() + kReminderTime;
}

void LiveJob::maybe_remind() {
  if (!remind_at_ || clock_.now() < *remind_at_) return;
  remind_at_ = clock_.now() + kReminderTime;
  const ElasticPhase phase = driver_->phase();
  if (std::exchange(reminded_of_, phase) == phase) return;
  if (phase == ElasticPhase::kBarrier) {
    std::vector<int> late;
    for (const ElasticSlot& slot : driver_->missing()) {
      if (const LiveProcess* const process = members_.living(slot)) late.push_back(process->rank);
    }
    events_.warn(fmt::format("{}; {} not asked for new numbers yet, which happens when a collective fails", failure_,
                             late.size() == 1 ? fmt::format("rank {} has", late.front())
                                              : fmt::format("ranks {} have", model::format_rank_list(late))));
  } else if (phase == ElasticPhase::kWaiting) {
    events_.warn(fmt::format(
        "{}; fewer slots are left than --min-np {}, so the job waits for others for up to {} s (--elastic-timeout)",
        failure_, min_ranks_, spec_.elastic_timeout.count()));
  }
}

std::vector<std::string> LiveJob::excluded_hosts() const {
  return driver_ == nullptr ? std::vector<std::string>() : driver_->blacklisted();
}

std::optional<base::MonotonicTime> LiveJob::excluded_until(const std::string& host) const {
  return driver_ == nullptr ? std::nullopt : driver_->blacklisted_until(host);
}

std::optional<int> LiveJob::limit_of(const std::string& host) const {
  return driver_ == nullptr ? std::nullopt : driver_->limit_of(host);
}

int LiveJob::lacks() const {
  return driver_ == nullptr || is_over_ ? 0 : driver_->lacks();
}

void LiveJob::carry_out(BeginGeneration action) {
  remind_at_.reset();
  reminded_of_.reset();
  // The first event counts, also if a plan was replaced before it began.
  if (planned_) action.generation.caused_at = planned_->generation.caused_at;
  planned_ = Planned{.generation = std::move(action.generation)};
  for (const PlannedSlot& each : action.to_start) add_process(each);
  advance();
}

// Returns whether the agent can start more processes: it has just been added, or some of its processes live.
bool LiveJob::is_in_use(int agent) {
  return starting_.contains(agent) || unused_.contains(agent) ||
         std::ranges::any_of(members_.living_on(agent), &LiveProcess::is_sent);
}

// An agent whose processes have all ended is leaving, so its host gets another one.
void LiveJob::add_process(const PlannedSlot& planned) {
  const std::string& host = planned.slot.host;
  const auto found = agents_.find(host);
  int agent = found == agents_.end() ? -1 : found->second;
  if (agent < 0 || !is_in_use(agent)) {
    const auto added = events_.add_agent(host);
    if (!added.ok()) {
      events_.warn(added.status().message());
      return driver_->on_exit(planned.slot, {.exit_code = 1}, now());
    }
    agent = agents_[host] = *added;
    starting_.insert(agent);
    unused_.insert(agent);
  }
  members_.add({.number = members_.next_number(), .agent = agent, .slot = planned.slot, .is_sent = false});
}

void LiveJob::process_failed(LiveProcess& process, SlotExit exit) {
  process.has_ended = true;
  driver_->on_exit(process.slot, exit, now());
}

// Returns the agent of each host of the plan, in rank order.
std::vector<int> LiveJob::planned_agents() const {
  std::vector<int> agents;
  for (const PlannedSlot& each : planned_->generation.plan) {
    const auto found = agents_.find(each.slot.host);
    if (found == agents_.end()) continue;  // it could not be added; the driver plans again
    if (std::ranges::find(agents, found->second) == agents.end()) agents.push_back(found->second);
  }
  return agents;
}

// Sends the orders for the planned generation when all its agents are up. The addresses of all hosts are known then.
void LiveJob::advance() {
  if (!planned_ || planned_->is_prepared || planned_->generation.plan.empty()) return;
  const ElasticPhase phase = driver_->phase();
  if (phase == ElasticPhase::kSettling || phase == ElasticPhase::kWaiting) return;  // the plan will be replaced
  const std::vector<int> agents = planned_agents();
  if (std::ranges::any_of(agents, [this](int agent) { return starting_.contains(agent); })) return;
  const auto address = events_.address_of_first(agents);
  if (!address.ok()) return fail_store(agents.front(), address.status().message());
  planned_->address = *address;
  if (!start_processes(agents, *address)) return;
  planned_->is_prepared = true;
  prepare_store(agents);
}

// Returns false if the driver must plan again.
bool LiveJob::start_processes(const std::vector<int>& agents, const std::string& address) {
  std::vector<NewProcess> processes;
  for (const LiveProcess& process : members_.all()) {
    const PlannedSlot* const slot = find_slot(planned_->generation.plan, process.slot);
    if (process.is_sent || process.has_ended || slot == nullptr) continue;
    processes.push_back({process.number, process.agent, slot->plan.rank});
  }
  if (processes.empty()) return true;
  const base::Status started = events_.start(planned_->generation, agents, processes, address);
  if (!started.ok()) events_.warn(started.message());
  for (const NewProcess& each : processes) {
    LiveProcess& process = *members_.find(each.number);
    process.is_sent = true;
    if (!started.ok()) {
      process_failed(process, {.exit_code = 1});
    } else {
      unused_.erase(each.agent);
    }
  }
  return started.ok();
}

// An agent that came up and has nothing to start leaves the job, once no plan is being made.
void LiveJob::release_idle_agents() {
  if (driver_->phase() != ElasticPhase::kRunning && driver_->phase() != ElasticPhase::kBarrier) return;
  std::erase_if(unused_, [this](int agent) {
    if (starting_.contains(agent)) return false;
    if (members_.living_on(agent).empty()) events_.release_agent(agent);
    return true;
  });
}

void LiveJob::prepare_store(const std::vector<int>& agents) {
  const Generation& generation = planned_->generation;
  v1::LauncherMessage message;
  v1::PrepareGeneration& order = *message.mutable_prepare_generation();
  order.set_generation(generation.number);
  for (const int agent : agents) {
    if (agent != agents.front()) *order.add_peers() = events_.peer_of(agent);
  }
  std::set<std::string> named;
  for (const PlannedSlot& each : generation.plan) {
    if (!named.insert(each.slot.host).second) continue;
    v1::HorovodHost& host = *order.add_horovod_hosts();
    host.set_name(each.slot.host);
    host.set_local_size(each.plan.local_size);
  }
  events_.send(agents.front(), std::move(message));
}

void LiveJob::prepared(int agent, const v1::GenerationPrepared& answer) {
  if (is_over_ || !planned_ || answer.generation() != planned_->generation.number) return;
  if (agent != agent_of(planned_->generation.plan.front().slot)) return;
  if (!answer.error().empty()) return fail_store(agent, base::printable(answer.error()));
  planned_->port = answer.horovod_port();
  for (const int number : std::exchange(planned_->early_puts, {})) put_first(number);
  maybe_begin();
}

// The host cannot have the store of the next generation, so it leaves the job.
void LiveJob::fail_store(int agent, const std::string& why) {
  v1::LauncherMessage message;
  message.mutable_stop_ranks()->set_grace_ms(kill_grace_.count());
  message.mutable_stop_ranks()->set_reason("this host cannot open the store of the next generation");
  events_.send(agent, std::move(message));
  events_.lose_host(agent, why);
}

void LiveJob::carry_out(const ReleaseAnswers& action) {
  if (!planned_ || planned_->generation.number != action.generation) return;
  planned_->release = action;
  if (misses_process()) return repeat_questions();
  maybe_begin();
}

// Whether a process of the plan has ended.
bool LiveJob::misses_process() {
  return std::ranges::any_of(planned_->generation.plan,
                             [this](const PlannedSlot& each) { return members_.living(each.slot) == nullptr; });
}

// Does nothing if the driver is about to make another plan, or waits for slots of one.
void LiveJob::maybe_begin() {
  if (!planned_ || !planned_->port || !planned_->release) return;
  const ElasticPhase phase = driver_->phase();
  if (phase == ElasticPhase::kSettling || phase == ElasticPhase::kWaiting || misses_process()) return;
  const int store_agent = agent_of(planned_->generation.plan.front().slot);
  for (auto& [agent, message] : begin_messages(store_agent)) events_.send(agent, std::move(message));
  store_agent_ = store_agent;
  const Planned begun = *std::exchange(planned_, std::nullopt);
  present_ = begun.generation.number;
  is_generation_over_ = false;
  events_.began(begun.generation, members_.begin(begun.generation.plan));
}

// Returns the messages by agent. Each agent with processes that live gets one.
std::map<int, v1::LauncherMessage> LiveJob::begin_messages(int store_agent) const {
  v1::BeginGeneration elsewhere;
  elsewhere.set_generation(planned_->generation.number);
  elsewhere.set_horovod_address(planned_->address);
  elsewhere.set_horovod_port(*planned_->port);
  *elsewhere.add_peers() = events_.peer_of(store_agent);
  v1::RankTable table;
  if (events_.rank_table) table = events_.rank_table(planned_->generation.plan);
  std::map<int, v1::LauncherMessage> messages;
  const SlotIndex index(planned_->generation.plan);
  for (const LiveProcess& process : members_.all()) {
    if (process.has_ended) continue;
    const auto [at, is_first] = messages.try_emplace(process.agent);
    v1::BeginGeneration& begin = *at->second.mutable_begin_generation();
    if (is_first && process.agent != store_agent) begin = elsewhere;
    begin.set_generation(planned_->generation.number);
    if (is_first && events_.rank_table) *begin.mutable_rank_table() = table;
    v1::LiveMember& member = *begin.add_members();
    member.set_number(process.number);
    const PlannedSlot* const slot = index.find(process.slot);
    member.set_rank(slot == nullptr ? -1 : slot->plan.rank);
    if (slot == nullptr) continue;
    member.set_size(slot->plan.size);
    member.set_local_rank(slot->plan.local_rank);
    member.set_local_size(slot->plan.local_size);
    member.set_cross_rank(slot->plan.cross_rank);
    member.set_cross_size(slot->plan.cross_size);
  }
  return messages;
}

void LiveJob::carry_out(const NotifyWorker& action) {
  const LiveProcess* const process = members_.living(action.slot);
  if (process == nullptr) return driver_->on_notice_failed(action.slot, now());
  v1::LauncherMessage message;
  v1::NotifyWorker& order = *message.mutable_notify_worker();
  order.set_number(process->number);
  order.set_timestamp(action.timestamp);
  order.set_result(kHostsMixed);
  noticed_at_ = action.timestamp;
  events_.send(process->agent, std::move(message));
}

// The driver repeats a notice that has failed, because the process may still be starting its service.
void LiveJob::notified(const v1::WorkerNotified& answer) {
  const LiveProcess* const process = members_.find(answer.number());
  if (is_over_ || process == nullptr || answer.error().empty() || answer.timestamp() != noticed_at_) return;
  driver_->on_notice_failed(process->slot, now());
  carry_out();
}

void LiveJob::carry_out(const StopSlots& action) {
  std::map<int, v1::LauncherMessage> messages;
  for (const ElasticSlot& slot : action.slots) {
    LiveProcess* const process = members_.living(slot);
    if (process == nullptr || std::exchange(process->is_stopped, true)) continue;
    if (!process->is_sent) {
      process_failed(*process, {.exit_code = 1, .caused_by_us = true});
      continue;
    }
    v1::EndRanks& order = *messages[process->agent].mutable_end_ranks();
    order.add_ranks(process->number);
    order.set_grace_ms(kill_grace_.count());
  }
  for (auto& [agent, message] : messages) events_.send(agent, std::move(message));
}

void LiveJob::carry_out(const FinishJob& action) {
  stop();
  events_.over(action);
}

}  // namespace muster::launcherd::run
