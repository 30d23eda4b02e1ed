// The part of HostPool's core for jobs on agents: it opens, resumes and closes them.
// Read it in this order: attach, open, take_up_sessions, said, session_said, session_up, detach, lose_sessions.
#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "launcherd/agents/own_agents.h"
#include "launcherd/agents/pool_core.h"
#include "launcherd/agents/pooled_agents.h"

namespace muster::launcherd::inline agents {
namespace {

// If a host loses this many agents before they open a job, its start counts as failed.
constexpr int kMostStarts = 3;
constexpr std::int64_t kMostMib = std::int64_t{1} << 32;  // memory of a GPU, in MiB
constexpr std::size_t kMostProblem = 1024;                // bytes of a problem's text

// Limits the load that an agent reports to possible values.
v1::HostLoad checked_load(const v1::Hello& hello, const v1::HostLoad& said) {
  v1::HostLoad load;
  if (said.has_cpu_percent()) load.set_cpu_percent(std::clamp(said.cpu_percent(), 0, 100));
  if (said.has_memory_used_mib()) {
    const auto most = std::max<std::int64_t>(hello.memory_mib(), 0);
    load.set_memory_used_mib(std::clamp<std::int64_t>(said.memory_used_mib(), 0, most));
  }
  for (const v1::GpuLoad& gpu : said.gpus()) {
    if (load.gpus_size() == hello.gpus_size()) break;
    v1::GpuLoad& taken = *load.add_gpus();
    taken = gpu;
    taken.set_busy_percent(std::clamp(gpu.busy_percent(), 0, 100));
    if (gpu.has_memory_used_mib())
      taken.set_memory_used_mib(std::clamp<std::int64_t>(gpu.memory_used_mib(), 0, kMostMib));
    if (gpu.has_processes()) taken.set_processes(std::max(gpu.processes(), 0));
  }
  if (said.has_gpu_problem()) load.set_gpu_problem(base::valid_utf8(said.gpu_problem().substr(0, kMostProblem)));
  return load;
}

}  // namespace

void HostPool::Core::attach(const AgentHost& wanted, const std::string& job, PoolSession session) {
  PoolHost& host = host_at(wanted.target);
  host.is_local = wanted.is_local;
  PoolSession& entry = host.sessions[job] = std::move(session);
  switch (host.phase) {
    case PoolHost::Phase::kNone:
    case PoolHost::Phase::kFailed:
      if (entry.resumes) {
        // The state file does not list the agent that held the job, or that agent was found gone already.
        loop_.post([weak = weak_from_this(), &host] {
          if (weak.lock() != nullptr && host.number < 0) weak.lock()->lose_sessions(host, "no agent is known there");
        });
        return;
      }
      ++entry.starts;
      start_agent(host);
      return;
    case PoolHost::Phase::kStarting:
    case PoolHost::Phase::kJoining:
      ++entry.starts;
      return;
    case PoolHost::Phase::kAwaited:
      return;
    case PoolHost::Phase::kUp:
      open(host, job, entry);
      return;
  }
}

void HostPool::Core::open(PoolHost& host, const std::string& job, PoolSession& session) {
  if (session.phase != PoolSession::Phase::kWaiting || host.closing.contains(job)) return;
  session.phase = PoolSession::Phase::kOpening;
  v1::LauncherMessage message;
  message.set_job_id(job);
  *message.mutable_open_job() = session.open;
  control_->send(host.number, std::move(message));
}

void HostPool::Core::detach(const BootstrapTarget& target, const std::string& job) {
  PoolHost& host = host_at(target);
  const auto found = host.sessions.find(job);
  if (found == host.sessions.end()) return;
  const bool may_be_there = host.number >= 0 && (found->second.phase != PoolSession::Phase::kWaiting ||
                                                 (found->second.resumes && host.phase == PoolHost::Phase::kAwaited));
  host.sessions.erase(found);
  if (may_be_there && !lets_go_) leave_when_stored(host, job);
}

// Sends Leave once the job's end is on the disk. Until then only the agent has the job's messages. After a kill, the
// next launcherd asks for them again.
void HostPool::Core::leave_when_stored(PoolHost& host, const std::string& job) {
  if (!options_.when_stored) return send_leave(host, job);
  host.closing.insert(job);
  host.unstored.insert(job);
  // Post, because the caller may be about to record why it drops the agents.
  loop_.post([weak = weak_from_this(), &host, job] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->options_.when_stored([weak, &host, job] {
      if (const auto alive = weak.lock()) alive->stored(host, job);
    });
  });
}

void HostPool::Core::stored(PoolHost& host, const std::string& job) {
  if (host.unstored.erase(job) == 0) return;  // the agent was lost meanwhile
  if (!lets_go_) return send_leave(host, job);
  if (host.is_dismissed && host.unstored.empty() && host.has_stream) dismiss(host);
}

void HostPool::Core::send_leave(PoolHost& host, const std::string& job) {
  host.closing.insert(job);
  // An awaited agent gets Leave when it connects. Before that, no message can be numbered for it.
  if (host.phase != PoolHost::Phase::kUp) return;
  v1::LauncherMessage message;
  message.set_job_id(job);
  message.mutable_leave();
  control_->send(host.number, std::move(message));
}

void HostPool::Core::send(const BootstrapTarget& target, const std::string& job, v1::LauncherMessage message,
                          bool is_numbered) {
  PoolHost& host = host_at(target);
  const auto found = host.sessions.find(job);
  if (found == host.sessions.end() || found->second.phase != PoolSession::Phase::kOpen) return;
  message.set_job_id(job);
  if (is_numbered) {
    control_->send(host.number, std::move(message));
  } else {
    control_->send_unnumbered(host.number, std::move(message));
  }
}

void HostPool::Core::take_up_sessions(PoolHost& host, const v1::Hello& hello) {
  std::set<std::string> held;
  for (const v1::HeldJob& job : hello.held_jobs()) {
    held.insert(job.job_id());
    const auto found = host.sessions.find(job.job_id());
    const bool is_wanted = found != host.sessions.end() && !host.closing.contains(job.job_id());
    if (is_wanted && found->second.resumes && found->second.open.attempt() == job.attempt()) {
      found->second.phase = PoolSession::Phase::kRecalling;
      found->second.has_launched = job.launched();
    } else if (host.unstored.contains(job.job_id())) {
      continue;
    } else if (is_wanted || forgets_others_ || host.closing.contains(job.job_id())) {
      send_leave(host, job.job_id());
    }
  }
  std::erase_if(host.closing, [&](const std::string& job) { return !held.contains(job); });
  std::vector<std::string> lost;
  for (auto& [job, session] : host.sessions) {
    if (session.phase != PoolSession::Phase::kWaiting) continue;
    if (session.resumes && session.was_running) {
      lost.push_back(job);
    } else {
      open(host, job, session);
    }
  }
  for (const std::string& job : lost) {
    const auto found = host.sessions.find(job);
    if (found == host.sessions.end()) continue;
    const PoolSession session = std::move(found->second);
    host.sessions.erase(found);
    session.owner->pool_gone(session.agent, "the agent there has ended the job's ranks while no launcherd was there");
  }
}

void HostPool::Core::forget_other_jobs() {
  forgets_others_ = true;
  for (const auto& [key, host] : hosts_) {
    if (host->phase != PoolHost::Phase::kUp) continue;
    for (const v1::HeldJob& job : host->up.hello.held_jobs()) {
      if (!host->sessions.contains(job.job_id()) && !host->closing.contains(job.job_id())) {
        send_leave(*host, job.job_id());
      }
    }
  }
}

void HostPool::Core::said(PoolHost& host, const v1::AgentMessage& message) {
  const std::string& job = message.job_id();
  if (job.empty()) {
    if (message.has_renewed()) host.has_next_keys = true;
    if (message.has_host_load()) host.load = checked_load(host.up.hello, message.host_load());
    if (message.has_notice()) note(fmt::format("{}: {}", host.target.name, base::printable(message.notice().text())));
    return;
  }
  if (host.closing.contains(job)) {
    if (!message.has_job_closed()) return;
    host.closing.erase(job);
    const auto next = host.sessions.find(job);
    if (next != host.sessions.end()) open(host, job, next->second);
    return;
  }
  const auto found = host.sessions.find(job);
  if (found != host.sessions.end()) session_said(host, found->second, message);
}

void HostPool::Core::session_said(PoolHost& host, PoolSession& session, const v1::AgentMessage& message) {
  switch (session.phase) {
    case PoolSession::Phase::kWaiting:
      return;
    case PoolSession::Phase::kOpening:
      if (!message.has_job_opened()) return;
      if (!message.job_opened().error().empty()) {
        const PoolSession failed = session;
        host.sessions.erase(message.job_id());
        failed.owner->pool_failed(
            failed.agent, fmt::format("{}: {}", host.target.name, base::printable(message.job_opened().error())));
        return;
      }
      session.opened = message.job_opened();
      session_up(host, session);
      return;
    case PoolSession::Phase::kRecalling:
      if (message.has_job_closed()) return closed_by_agent(host, message.job_id());
      if (message.has_job_opened()) {
        session.opened = message.job_opened();
      } else if (message.has_history_end()) {
        session_up(host, session);
      } else {
        session.history.push_back(message);
      }
      return;
    case PoolSession::Phase::kOpen:
      if (message.has_job_closed()) return closed_by_agent(host, message.job_id());
      session.owner->pool_said(session.agent, message);
      return;
  }
}

// The agent closes a job by itself when the job's lease has ended. It sends nothing more about the job, although it
// lives.
void HostPool::Core::closed_by_agent(PoolHost& host, const std::string& job) {
  const auto found = host.sessions.find(job);
  if (found == host.sessions.end()) return;
  const PoolSession session = std::move(found->second);
  host.sessions.erase(found);
  session.owner->pool_gone(session.agent, "it has ended the job there by itself");
}

void HostPool::Core::session_up(PoolHost& host, PoolSession& session) {
  session.phase = PoolSession::Phase::kOpen;
  AgentUp up = host.up;
  up.hello.clear_held_jobs();
  up.hello.set_containment(session.opened.containment());
  up.hello.set_containment_note(session.opened.containment_note());
  up.hello.set_session_dir(session.opened.session_dir());
  up.history = std::exchange(session.history, {});
  up.has_launched = session.has_launched;
  PooledAgents* const owner = session.owner;
  const int agent = session.agent;
  owner->pool_stream(agent, host.has_stream);
  owner->pool_up(agent, std::move(up));  // the session may be gone afterwards
}

void HostPool::Core::fail_sessions(PoolHost& host, const std::string& message) {
  for (const auto& [job, session] : std::exchange(host.sessions, {}))
    session.owner->pool_failed(session.agent, message);
}

// Takes a lost agent's sessions away. A job that the agent had not opened yet gets another agent.
void HostPool::Core::lose_sessions(PoolHost& host, const std::string& why) {
  std::map<std::string, PoolSession> sessions = std::exchange(host.sessions, {});
  bool wants_agent = false;
  for (auto& [job, session] : sessions) {
    const bool is_open = session.phase == PoolSession::Phase::kOpen || session.phase == PoolSession::Phase::kRecalling;
    if (is_open || (session.resumes && session.was_running)) {
      session.owner->pool_gone(session.agent, why);
    } else if (++session.starts > kMostStarts) {
      session.owner->pool_failed(
          session.agent, fmt::format("{}: the agent there ends as soon as it is up ({})", host.target.name, why));
    } else {
      session.phase = PoolSession::Phase::kWaiting;
      host.sessions.emplace(job, std::move(session));
      wants_agent = true;
    }
  }
  if (wants_agent && host.number < 0) start_agent(host);
}

void HostPool::Core::sweep(const BootstrapTarget& target, const std::string& job,
                           std::function<void(base::Result<CommandResult>)> done) {
  bootstrap_->run(target, sweep_arguments(job, options_.session_root),
                  [&loop = loop_, weak = weak_from_this(), done = std::move(done)](base::Result<CommandResult> result) {
                    loop.post([weak, done, result = std::move(result)] {
                      if (weak.lock() != nullptr) done(result);
                    });
                  });
}

}  // namespace muster::launcherd::agents
