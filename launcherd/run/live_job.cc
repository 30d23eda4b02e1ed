// All of LiveJob.
// Read it in this order: start, the events, carry_out, prepare_store, maybe_begin.
#include "launcherd/run/live_job.h"

#include <algorithm>
#include <random>
#include <set>
#include <utility>
#include <variant>

#include "base/strings.h"
#include "model/rank_env.h"

namespace muster::launcherd::inline run {
namespace {

ElasticLimits limits_of(const model::ElasticSpec& spec, int np) {
  ElasticLimits limits;
  limits.np = np;
  limits.min_np = spec.min_ranks;
  limits.max_np = spec.max_ranks;
  limits.reset_limit = spec.reset_limit;
  limits.elastic_timeout = spec.elastic_timeout;
  limits.abort_window = base::Duration::zero();  // a fixed list of hosts restarts no slot, so each failure counts
  return limits;
}

}  // namespace

LiveJob::LiveJob(const model::ElasticSpec& spec, const base::Clock& clock, std::chrono::milliseconds kill_grace,
                 Events events)
    : spec_(spec), clock_(clock), kill_grace_(kill_grace), events_(std::move(events)) {}

void LiveJob::start(const model::Placement& placement, const std::vector<int>& agents) {
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
    members_.add(
        {.number = number, .agent = agents[host], .slot = {hosts[host].name, rank.local_rank}, .rank = number});
  }
  driver_ = std::make_unique<ElasticDriver>(limits_of(spec_, placement.size), now(),
                                            [generator = std::mt19937(std::random_device()())]() mutable {
                                              return std::uniform_real_distribution<double>(0, 1)(generator);
                                            });
  driver_->set_hosts(std::move(hosts), now());
  driver_->take_actions();  // begins generation 0, whose processes the caller starts
  // Generation 0 is not held, so that programs without Horovod's keys start, too.
  for (int rank = 0; rank < placement.size; ++rank) driver_->on_first_put(0, rank, now());
  carry_out();
}

void LiveJob::tick() {
  if (is_over_) return;
  driver_->tick(now());
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
  driver_->on_first_put(planned_->generation.number, slot->plan.rank, now());
  carry_out();
}

void LiveJob::ended(int number, const model::RankEnd& end) {
  LiveProcess* const process = members_.find(number);
  if (process == nullptr || std::exchange(process->has_ended, true) || is_over_) return;
  const bool was_stopped = process->is_stopped || end.kind == model::EndKind::kStopped;
  if (!process->is_stopped && (was_stopped || end.failed())) end_host(process->agent);
  // A process that was stopped has not done its work, even if it ends with 0.
  const int exit_code = was_stopped ? std::max(end.status(), 1) : end.status();
  driver_->on_exit(process->slot, {.exit_code = exit_code, .caused_by_us = process->is_stopped}, now());
  repeat_questions({process->slot});
  carry_out();
}

void LiveJob::host_lost(int agent) {
  const std::vector<LiveProcess*> living = members_.living_on(agent);
  for (LiveProcess* const process : living) process->has_ended = true;
  if (is_over_ || living.empty()) return;
  // Survivors may wait for a key of the lost store, and would never come back.
  if (agent == store_agent_) {
    for (const auto& [name, other] : agents_) {
      if (members_.living_on(other).empty()) continue;
      v1::LauncherMessage message;
      message.mutable_store_lost();
      events_.send(other, std::move(message));
    }
  }
  std::vector<ElasticSlot> slots;
  for (const LiveProcess* const process : living) slots.push_back(process->slot);
  driver_->on_host_lost(slots.front().host, now());
  repeat_questions(slots);
  carry_out();
}

// Ends the other processes of a host on which one has failed: the host will be black-listed. Their peers notice it at
// once. Otherwise peers would wait for them until Gloo's timeout, 30 s, because a process that asks for new numbers
// leaves its old connections open (horovod 0.28.1).
void LiveJob::end_host(int agent) {
  v1::LauncherMessage message;
  v1::EndRanks& order = *message.mutable_end_ranks();
  order.set_grace_ms(kill_grace_.count());
  for (LiveProcess* const process : members_.living_on(agent)) {
    if (!std::exchange(process->is_stopped, true)) order.add_ranks(process->number);
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
  if (!is_hit) return;
  for (const PlannedSlot& each : plan) {
    if (members_.living(each.slot) != nullptr) driver_->on_rank_and_size(each.slot, now());
  }
}

void LiveJob::stop() {
  is_over_ = true;
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
  if (!is_over_) events_.wake(driver_->deadline());
}

void LiveJob::carry_out(BeginGeneration action) {
  // The first event counts, also if a plan was replaced before it began.
  if (planned_) action.generation.caused_at = planned_->generation.caused_at;
  planned_ = Planned{.generation = std::move(action.generation)};
  for (const PlannedSlot& each : action.to_start) {
    // Slots of a fixed list of hosts start once. A slot that cannot start counts as failed.
    driver_->on_exit(each.slot, {.exit_code = 1}, now());
  }
  prepare_store();
}

void LiveJob::prepare_store() {
  const Generation& generation = planned_->generation;
  if (generation.plan.empty()) return;
  std::vector<int> agents;
  v1::LauncherMessage message;
  v1::PrepareGeneration& order = *message.mutable_prepare_generation();
  order.set_generation(generation.number);
  for (const PlannedSlot& each : generation.plan) {
    const int agent = agent_of(each.slot);
    if (std::ranges::find(agents, agent) != agents.end()) continue;
    if (!agents.empty()) *order.add_peers() = events_.peer_of(agent);
    agents.push_back(agent);
    v1::HorovodHost& host = *order.add_horovod_hosts();
    host.set_name(each.slot.host);
    host.set_local_size(each.plan.local_size);
  }
  const auto address = events_.address_of_first(agents);
  if (!address.ok()) return fail_store(agents.front(), address.status().message());
  planned_->address = *address;
  events_.send(agents.front(), std::move(message));
}

void LiveJob::prepared(int agent, const v1::GenerationPrepared& answer) {
  if (is_over_ || !planned_ || answer.generation() != planned_->generation.number) return;
  if (agent != agent_of(planned_->generation.plan.front().slot)) return;
  if (!answer.error().empty()) return fail_store(agent, base::printable(answer.error()));
  planned_->port = answer.horovod_port();
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
  maybe_begin();
}

void LiveJob::maybe_begin() {
  if (!planned_ || !planned_->port || !planned_->release) return;
  const int store_agent = agent_of(planned_->generation.plan.front().slot);
  for (const auto& [name, agent] : agents_) {
    if (!members_.living_on(agent).empty()) events_.send(agent, begin_message(agent, store_agent));
  }
  store_agent_ = store_agent;
  const Planned begun = *std::exchange(planned_, std::nullopt);
  events_.began(begun.generation, members_.begin(begun.generation.plan));
}

v1::LauncherMessage LiveJob::begin_message(int agent, int store_agent) const {
  v1::LauncherMessage message;
  v1::BeginGeneration& begin = *message.mutable_begin_generation();
  begin.set_generation(planned_->generation.number);
  if (agent != store_agent) {
    begin.set_horovod_address(planned_->address);
    begin.set_horovod_port(*planned_->port);
    *begin.add_peers() = events_.peer_of(store_agent);
  }
  for (const LiveProcess& process : members_.all()) {
    if (process.has_ended || process.agent != agent) continue;
    v1::LiveMember& member = *begin.add_members();
    member.set_number(process.number);
    const PlannedSlot* const slot = find_slot(planned_->generation.plan, process.slot);
    member.set_rank(slot == nullptr ? -1 : slot->plan.rank);
    if (slot == nullptr) continue;
    member.set_size(slot->plan.size);
    member.set_local_rank(slot->plan.local_rank);
    member.set_local_size(slot->plan.local_size);
    member.set_cross_rank(slot->plan.cross_rank);
    member.set_cross_size(slot->plan.cross_size);
  }
  return message;
}

// Notices lead to new processes, which a fixed list of hosts never needs.
void LiveJob::carry_out(const NotifyWorker& action) {
  driver_->on_notice_failed(action.slot, now());
}

void LiveJob::carry_out(const StopSlots& action) {
  std::map<int, v1::LauncherMessage> messages;
  for (const ElasticSlot& slot : action.slots) {
    LiveProcess* const process = members_.living(slot);
    if (process == nullptr || std::exchange(process->is_stopped, true)) continue;
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
