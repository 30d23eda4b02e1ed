// PoolSessions: jobs on agents.
// Read it in this order: attach, open, resume, message, session_message, session_up, detach, lose.
#include "launcherd/agents/pool_sessions.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/strings.h"
#include "launcherd/agents/own_agents.h"
#include "launcherd/agents/pooled_agents.h"

namespace muster::launcherd::inline agents {
namespace {

// If a host loses this many agents before they open a job, its start counts as failed.
constexpr int kMostStarts = 3;
constexpr std::int64_t kMostMib = std::int64_t{1} << 32;      // memory of a GPU, in MiB
constexpr std::int64_t kHighestRate = std::int64_t{1} << 50;  // bytes per second
constexpr std::size_t kMostProblem = 1024;                    // bytes of a problem's text

// Limits the load that an agent reports to possible values.
v1::HostLoad checked_load(const v1::Hello& hello, const v1::HostLoad& reported) {
  v1::HostLoad load;
  if (reported.has_cpu_percent()) load.set_cpu_percent(std::clamp(reported.cpu_percent(), 0, 100));
  if (reported.has_memory_used_mib()) {
    const auto most = std::max<std::int64_t>(hello.memory_mib(), 0);
    load.set_memory_used_mib(std::clamp<std::int64_t>(reported.memory_used_mib(), 0, most));
  }
  if (reported.has_network_bytes_per_second()) {
    load.set_network_bytes_per_second(std::clamp<std::int64_t>(reported.network_bytes_per_second(), 0, kHighestRate));
  }
  for (const v1::GpuLoad& gpu : reported.gpus()) {
    if (load.gpus_size() == hello.gpus_size()) break;
    v1::GpuLoad& checked = *load.add_gpus();
    checked = gpu;
    checked.set_busy_percent(std::clamp(gpu.busy_percent(), 0, 100));
    if (gpu.has_memory_used_mib())
      checked.set_memory_used_mib(std::clamp<std::int64_t>(gpu.memory_used_mib(), 0, kMostMib));
    if (gpu.has_processes()) checked.set_processes(std::max(gpu.processes(), 0));
  }
  if (reported.has_gpu_problem())
    load.set_gpu_problem(base::valid_utf8(reported.gpu_problem().substr(0, kMostProblem)));
  return load;
}

}  // namespace

void PoolSessions::attach(const AgentHost& wanted, const std::string& job, PoolSession session) {
  PoolHost& host = parts_.roster.at(wanted.target);
  host.is_local = wanted.is_local;
  PoolSession& entry = host.sessions[job] = std::move(session);
  if (has_joined(host.phase)) return open(host, job, entry);
  if (host.phase == PooledHostPhase::kAwaited) return;
  if (!has_agent(host.phase) && entry.resumes) {
    // The agent that held the job is lost: the state file does not list it, or a probe has found it gone.
    parts_.loop.post(gate_.wrap([this, &host] {
      if (!has_agent(host.phase)) lose(host, "launcherd knows no agent there");
    }));
    return;
  }
  ++entry.starts;
  parts_.apply(host, PooledHostEvent::kStart, {});  // ignored if an agent is being started
}

void PoolSessions::open(PoolHost& host, const std::string& job, PoolSession& session) {
  if (session.phase != PoolSession::Phase::kWaiting || host.closing.contains(job)) return;
  session.phase = PoolSession::Phase::kOpening;
  v1::LauncherMessage message;
  message.set_job_id(job);
  *message.mutable_open_job() = session.open;
  parts_.control->send(host.number, std::move(message));
}

void PoolSessions::detach(const BootstrapTarget& target, const std::string& job, int agent) {
  PoolHost& host = parts_.roster.at(target);
  const auto found = host.sessions.find(job);
  if (found == host.sessions.end() || found->second.agent != agent) return;
  const PoolSession& session = found->second;
  const bool may_be_there = has_agent(host.phase) && (session.phase != PoolSession::Phase::kWaiting ||
                                                      (session.resumes && host.phase == PooledHostPhase::kAwaited));
  host.sessions.erase(found);
  if (may_be_there && !parts_.is_ending) leave_when_stored(host, job);
}

// Sends Leave once the job's end is on the disk. Until then only the agent has the job's messages. If launcherd is
// killed earlier, the next launcherd asks the agent for these messages again.
void PoolSessions::leave_when_stored(PoolHost& host, const std::string& job) {
  if (!parts_.options.when_stored) return send_leave(host, job);
  host.closing.insert(job);
  host.unstored.insert(job);
  // Post, because the caller may be about to record why it drops the agents.
  parts_.loop.post(gate_.wrap(
      [this, &host, job] { parts_.options.when_stored(gate_.wrap([this, &host, job] { stored(host, job); })); }));
}

void PoolSessions::stored(PoolHost& host, const std::string& job) {
  if (host.unstored.erase(job) == 0) return;  // the agent was lost before the disk had the job's end
  if (!parts_.is_ending) return send_leave(host, job);
  if (host.unstored.empty()) parts_.apply(host, PooledHostEvent::kStored, {});
}

void PoolSessions::send_leave(PoolHost& host, const std::string& job) {
  host.closing.insert(job);
  // An awaited agent gets Leave when it connects. Before it connects, no message to it can be numbered.
  if (!has_joined(host.phase)) return;
  v1::LauncherMessage message;
  message.set_job_id(job);
  message.mutable_leave();
  parts_.control->send(host.number, std::move(message));
}

void PoolSessions::send(const BootstrapTarget& target, const std::string& job, int agent, v1::LauncherMessage message,
                        bool is_numbered) {
  PoolHost& host = parts_.roster.at(target);
  const auto found = host.sessions.find(job);
  if (found == host.sessions.end() || found->second.agent != agent) return;
  if (found->second.phase != PoolSession::Phase::kOpen) return;
  message.set_job_id(job);
  if (is_numbered) {
    parts_.control->send(host.number, std::move(message));
  } else {
    parts_.control->send_unnumbered(host.number, std::move(message));
  }
}

void PoolSessions::resume(PoolHost& host) {
  std::set<std::string> held;
  for (const v1::HeldJob& job : host.up.hello.held_jobs()) {
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
    session.owner->pool_gone(session.agent, "the agent ended the job's ranks while no launcherd ran");
  }
}

void PoolSessions::forget_others() {
  forgets_others_ = true;
  for (const auto& [key, host] : parts_.roster) {
    if (!has_joined(host->phase)) continue;
    for (const v1::HeldJob& job : host->up.hello.held_jobs()) {
      if (!host->sessions.contains(job.job_id()) && !host->closing.contains(job.job_id())) {
        send_leave(*host, job.job_id());
      }
    }
  }
}

void PoolSessions::message(PoolHost& host, const v1::AgentMessage& message) {
  const std::string& job = message.job_id();
  if (job.empty()) {
    if (message.has_host_load()) {
      host.load = checked_load(host.up.hello, message.host_load());
      if (parts_.options.on_load) parts_.options.on_load(host.target, *host.load);
    }
    if (message.has_notice()) {
      parts_.note(fmt::format("{}: {}", host.target.name, base::printable(message.notice().text())));
    }
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
  if (found != host.sessions.end()) session_message(host, found->second, message);
}

void PoolSessions::session_message(PoolHost& host, PoolSession& session, const v1::AgentMessage& message) {
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
      session.owner->pool_message(session.agent, message);
      return;
  }
}

// Handles the agent's report that it has closed a job by itself, because the job's lease has ended. The agent lives
// but sends nothing more about the job.
void PoolSessions::closed_by_agent(PoolHost& host, const std::string& job) {
  const auto found = host.sessions.find(job);
  if (found == host.sessions.end()) return;
  const PoolSession session = std::move(found->second);
  host.sessions.erase(found);
  session.owner->pool_gone(session.agent, "the agent ended the job by itself");
}

void PoolSessions::session_up(PoolHost& host, PoolSession& session) {
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
  owner->pool_stream(agent, has_stream(host.phase));
  owner->pool_up(agent, std::move(up));  // the session may be gone afterwards
}

void PoolSessions::stream(PoolHost& host, bool is_there) {
  for (auto& [job, session] : host.sessions) session.owner->pool_stream(session.agent, is_there);
}

void PoolSessions::fail(PoolHost& host, const std::string& message) {
  for (const auto& [job, session] : std::exchange(host.sessions, {})) {
    session.owner->pool_failed(session.agent, message);
  }
}

void PoolSessions::lose(PoolHost& host, const std::string& why) {
  std::map<std::string, PoolSession> sessions = std::exchange(host.sessions, {});
  bool needs_agent = false;
  for (auto& [job, session] : sessions) {
    if (session.is_held() || (session.resumes && session.was_running)) {
      session.owner->pool_gone(session.agent, why);
    } else if (++session.starts > kMostStarts) {
      session.owner->pool_failed(
          session.agent, fmt::format("{}: the agents there end before they open the job ({}); see their messages in "
                                     "launcherd's log",
                                     host.target.name, why));
    } else {
      session.phase = PoolSession::Phase::kWaiting;
      host.sessions.emplace(job, std::move(session));
      needs_agent = true;
    }
  }
  if (needs_agent) parts_.apply(host, PooledHostEvent::kStart, {});  // ignored if an agent is being started
}

void PoolSessions::sweep(const BootstrapTarget& target, const std::string& job,
                         std::function<void(base::Result<CommandResult>)> done) {
  parts_.bootstrap->run(target, sweep_arguments(job, parts_.options.session_root),
                        [&loop = parts_.loop, done = gate_.wrap(std::move(done))](base::Result<CommandResult> result) {
                          loop.post([done, result = std::move(result)] { done(result); });
                        });
}

}  // namespace muster::launcherd::agents
