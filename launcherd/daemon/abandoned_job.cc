#include "launcherd/daemon/abandoned_job.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace muster::launcherd::inline daemon {

AbandonedJob::AbandonedJob(base::Loop& loop, AbandonedJobOptions options, std::shared_ptr<JobAgents> agents, Done done)
    : loop_(loop), options_(options), done_(std::move(done)), agents_(std::move(agents)) {}

AbandonedJob::~AbandonedJob() = default;

base::Status AbandonedJob::start(std::vector<AgentHost> hosts) {
  for (const AgentHost& host : hosts) {
    open_.insert(static_cast<int>(names_.size()));
    names_.push_back(host.target.name);
  }
  patience_ = loop_.after(options_.patience, [this] { give_up(); });
  MUSTER_RETURN_IF_ERROR(agents_->start(std::move(hosts), &sink_, this));
  maybe_finish();
  return base::ok_status();
}

// The agent has begun to end the ranks, because it knows that their launcherd is gone. The order sets the time.
void AbandonedJob::agent_up(int agent, AgentUp up) {
  const bool is_empty = std::ranges::any_of(up.history, &v1::AgentMessage::has_host_empty);
  if (is_empty || !up.has_launched) return cleared(agent);
  stopping_.insert(agent);
  stop_ranks(agent);
}

void AbandonedJob::stop_ranks(int agent) {
  v1::LauncherMessage message;
  message.mutable_stop_ranks()->set_grace_ms(options_.kill_grace.count());
  message.mutable_stop_ranks()->set_reason("launcherd ended while the job ran");
  agents_->send(agent, std::move(message));
}

void AbandonedJob::stop_at_once() {
  if (options_.kill_grace == std::chrono::milliseconds::zero()) return;
  options_.kill_grace = std::chrono::milliseconds::zero();
  for (const int agent : stopping_) {
    if (open_.contains(agent)) stop_ranks(agent);
  }
}

void AbandonedJob::agent_message(int agent, const v1::AgentMessage& message) {
  if (message.has_host_empty()) cleared(agent);
}

void AbandonedJob::agent_failed(int agent, const std::string& /*message*/) {
  sweep(agent);
}

void AbandonedJob::agent_gone(int agent, const base::Status& /*status*/) {
  sweep(agent);
}

void AbandonedJob::agent_unreadable(int agent) {
  unclear(agent, "its agent was sent the order to end the ranks, but cannot confirm their end");
}

// The agent and its warden may be dead, so a log-in searches the host.
void AbandonedJob::sweep(int agent) {
  if (!open_.contains(agent) || !searched_.insert(agent).second) return;
  agents_->sweep(agent, [this, agent](const base::Result<CommandResult>& result) { swept(agent, result); });
}

void AbandonedJob::swept(int agent, const base::Result<CommandResult>& result) {
  if (!result.ok()) {
    return unclear(agent, fmt::format("could not be searched for leftover processes: {}", result.status().message()));
  }
  if (result->exit_status != 0) {
    return unclear(agent, fmt::format("the search for leftover processes failed: {}",
                                      base::printable(base::trim(result->errors))));
  }
  cleared(agent);
}

void AbandonedJob::cleared(int agent) {
  if (open_.erase(agent) == 0) return;
  agents_->leave(agent);
  maybe_finish();
}

void AbandonedJob::unclear(int agent, const std::string& why) {
  if (!open_.contains(agent)) return;
  unclean_.push_back(fmt::format("{}: {}", names_[static_cast<std::size_t>(agent)], why));
  cleared(agent);
}

// Hosts that have not answered count as unclean.
void AbandonedJob::give_up() {
  for (const int agent : std::set(open_)) unclear(agent, "not reachable, so processes of the job may be left there");
}

// The agents may be calling, so report later.
void AbandonedJob::maybe_finish() {
  if (!open_.empty() || finish_.armed()) return;
  patience_.cancel();
  finish_ = loop_.after(base::Duration::zero(), [this] { done_(unclean_); });
}

}  // namespace muster::launcherd::daemon
