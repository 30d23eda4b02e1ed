// The part of JobManager for hosts: drains, new lists, reports of agents, and shares of jobs that were placed earlier.
// Read it in this order: drain, replace_hosts, agent_changed, learn_from_agent, learn, settle_before_launch.
#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "launcherd/daemon/deferred_share.h"
#include "launcherd/daemon/job_manager.h"
#include "launcherd/plan/launch_plan.h"
#include "model/gpu_binding.h"
#include "proto/convert.h"

namespace muster::launcherd::inline daemon {
namespace {

using base::Code;

constexpr std::chrono::milliseconds kSharePause{100};

BootstrapTarget target_of(const model::HostSpec& host) {
  return {.name = host.name, .user = host.user, .port = host.port};
}

// Returns the problem text of a host. `problem` is the text about its agent.
std::string problem_of(const SlotHost& host, const std::string& problem) {
  if (host.source == SlotSource::kAwaited)
    return "launcherd is asking it for its GPUs, one slot each; no job starts there before the answer";
  if (host.source != SlotSource::kUnknown || problem.empty()) return problem;
  return problem + "; it counts as one slot because its GPUs are unknown";
}

}  // namespace

void JobManager::drain(const std::string& host, const std::string& reason, Reply<v1::LauncherHost> reply) {
  if (reason.size() > 1024) {
    reply(base::invalid_argument("reason: {} bytes exceed the limit of 1024", reason.size()));
    return;
  }
  store_host(hosts_.drained(host, base::printable(reason), surroundings_.clock->wall()), std::move(reply));
}

void JobManager::resume(const std::string& host, Reply<v1::LauncherHost> reply) {
  store_host(hosts_.resumed(host, surroundings_.clock->wall()), std::move(reply));
}

void JobManager::store_host(base::Result<StoredHost> host, Reply<v1::LauncherHost> reply) {
  if (!host.ok()) {
    reply(host.status());
    return;
  }
  store_->append({*host}, gate_.wrap([this, host = *host, reply = std::move(reply)](const base::Status& status) {
    if (!status.ok()) {
      reply(status);
      return;
    }
    hosts_.apply(host);
    schedule();
    reply(host_message(host.name));
  }));
}

void JobManager::replace_hosts(const std::vector<model::HostSpec>& list) {
  hosts_.replace(list);
  for (const model::HostSpec& host : list) {
    const BootstrapTarget target = target_of(host);
    const v1::AgentState state = surroundings_.pool->state(target);
    if (state == v1::AGENT_STATE_FAILED) hosts_.set_down(host.name, true);
    // Learn the agent's facts again, because the table missed its reports while the host was not in the list.
    if (state == v1::AGENT_STATE_UP) learn_from_agent(host.name, target);
  }
  ask_for_gpus();
  held_.recheck();
  schedule();
}

// Starts agents on hosts whose number of GPUs decides their slots. The first job on such a host would start its agent
// anyway.
void JobManager::ask_for_gpus() {
  for (const model::HostSpec& host : hosts_.awaited()) ask(host);
}

void JobManager::ask(const model::HostSpec& host) {
  surroundings_.pool->ask({.target = target_of(host), .is_local = model::is_localhost(host)});
}

base::Result<v1::LauncherHost> JobManager::host_message(const std::string& name) const {
  for (v1::LauncherHost& host : host_messages()) {
    if (host.name() == name) return std::move(host);
  }
  return hosts_.message(name).status();
}

std::map<std::string, std::vector<v1::LeftOut>> JobManager::left_out() const {
  const base::WallTime now = surroundings_.clock->wall();
  std::map<std::string, std::vector<v1::LeftOut>> hosts;
  for (const auto& [id, job] : jobs_) {
    if (job.running == nullptr || job.running->is_over()) continue;
    std::vector<model::FailedHost> failed = job.running->failed_hosts();
    std::erase_if(failed, [now](const auto& host) { return host.usable_from && *host.usable_from <= now; });
    google::protobuf::RepeatedPtrField<v1::FailedHost> messages;
    proto::set_failed_hosts(failed, messages);
    for (v1::FailedHost& host : messages) {
      v1::LeftOut& left_out = hosts[host.name()].emplace_back();
      left_out.set_job(id.str());
      left_out.set_reason(host.reason());
      if (host.has_usable_from()) *left_out.mutable_usable_from() = host.usable_from();
    }
  }
  return hosts;
}

std::vector<v1::LauncherHost> JobManager::host_messages() const {
  std::vector<v1::LauncherHost> messages;
  std::map<std::string, std::vector<v1::LeftOut>> failed = left_out();
  for (const SlotHost& host : hosts_.slots()) {
    v1::LauncherHost& message = messages.emplace_back(hosts_.message_of(host));
    const PoolHostView view = surroundings_.pool->view(target_of(host.host));
    message.set_agent(view.state);
    message.set_problem(problem_of(host, view.problem));
    for (v1::LeftOut& job : failed[host.host.name]) *message.add_left_out() = std::move(job);
    message.set_output_bytes(view.output_bytes);
    if (view.output_rate) message.set_output_bytes_per_second(*view.output_rate);
    if (view.load) *message.mutable_load() = *view.load;
    const v1::Hello& hello = view.hello;
    if (hello.job_id().empty()) continue;
    message.set_hostname(base::valid_utf8(hello.hostname()));
    message.set_cores(hello.cores_size());
    message.set_memory_mib(hello.memory_mib());
    *message.mutable_gpus() = hello.gpus();
    const bool is_newer = view.load && view.load->has_gpu_problem();
    message.set_gpu_problem(is_newer ? view.load->gpu_problem() : base::valid_utf8(hello.gpu_problem()));
    message.set_gpu_driver(base::valid_utf8(hello.gpu_driver()));
    message.set_containment(base::valid_utf8(hello.containment()));
    message.set_kernel(base::valid_utf8(hello.kernel()));
    message.set_agent_build(base::valid_utf8(hello.build_id()));
  }
  return messages;
}

std::vector<std::string> JobManager::host_names() const {
  std::vector<std::string> names;
  for (const SlotHost& host : hosts_.slots()) names.push_back(host.host.name);
  return names;
}

std::vector<std::string> JobManager::hosts_of(const std::string& job) const {
  std::vector<std::string> names;
  const auto id = base::JobId::parse(job);
  const auto found = id.ok() ? jobs_.find(*id) : jobs_.end();
  if (found == jobs_.end() || found->second.running == nullptr) return names;
  for (const auto& placed : found->second.running->placement().hosts) names.push_back(placed.host.name);
  return names;
}

LoadSample JobManager::load_sample() const {
  LoadSample sample;
  for (const SlotHost& host : hosts_.slots()) {
    const BootstrapTarget target = target_of(host.host);
    if (surroundings_.pool->state(target) != v1::AGENT_STATE_UP) continue;
    sample.hosts.push_back({.name = host.host.name, .output_bytes = surroundings_.pool->output_bytes(target)});
  }
  for (const auto& [id, job] : jobs_) {
    if (job.running == nullptr || job.running->is_over()) continue;
    sample.jobs.push_back({.id = id.str(),
                           .output_rate = surroundings_.pool->output_rate(id.str()),
                           .hosts = hosts_of(id.str()),
                           .steps = job.running->steps()});
  }
  return sample;
}

void JobManager::agent_changed(const std::string& name) {
  const auto found = hosts_.find(name);
  if (!found.ok()) return;  // the list no longer has this host of a job
  const SlotHost& host = **found;
  const BootstrapTarget target = target_of(host.host);
  const v1::AgentState state = surroundings_.pool->state(target);
  const bool was_awaited = host.source == SlotSource::kAwaited;
  // A failed host is back only when its agent is up, not when its start is retried.
  const bool is_down = state == v1::AGENT_STATE_FAILED || (host.is_down && state != v1::AGENT_STATE_UP);
  const bool was_down = host.is_down;
  hosts_.set_down(name, is_down);
  if (is_down && !was_down) {
    surroundings_.on_line(fmt::format("{}; jobs wait for it, and launcherd tries it again{}",
                                      surroundings_.pool->view(target).problem,
                                      was_awaited ? "; it counts as one slot because its GPUs are unknown" : ""));
  } else if (!is_down && was_down) {
    surroundings_.on_line(fmt::format("{} is back", name));
    schedule();
  }
  if (state == v1::AGENT_STATE_UP) learn_from_agent(name, target);
  if (!was_awaited || host.source == SlotSource::kAwaited) return;
  if (hosts_.count_awaited() == 0) {
    surroundings_.on_line(
        fmt::format("all hosts without given slots have reported their GPUs: {} slots in total", hosts_.total_slots()));
  }
  // Post, because a client that gets its reply may submit again.
  loop_.post(gate_.wrap([this] { held_.recheck(); }));
}

void JobManager::learn_from_agent(const std::string& name, const BootstrapTarget& target) {
  const v1::Hello hello = surroundings_.pool->view(target).hello;
  const model::NodeShape shape = proto::node_shape_of(hello);
  // Ignore the GPU mask and the pinning of launcherd itself, because each job brings its own.
  if (hosts_.set_gpus(name, model::count_gpus(shape, {}))) schedule();
  learn(name, shape, host_identity(hello));
}

void JobManager::learn(const std::string& name, const model::NodeShape& shape, const std::string& identity) {
  const std::vector<std::string> before = hosts_.other_names(name);
  if (!hosts_.learn(name, shape, identity)) return;
  const std::vector<std::string> others = hosts_.other_names(name);
  if (!others.empty() && others != before) {
    surroundings_.on_line(
        fmt::format("{} is the same host as {}: their slots are added up, and their jobs get different GPUs and cores",
                    name, base::join(others, ", ")));
  }
  for (auto& [id, job] : jobs_) {
    if (job.running == nullptr || job.running->is_over() || job.running->waits_for_hosts()) continue;
    const model::Placement here = job.running->allocation_on(name);
    if (here.hosts.empty()) continue;
    const base::Status settled = settle(job, here, {{name, shape, job.has_run}}, Settling::kHostKnown);
    // Only log an error. The share is decided again before the job starts, and then the job waits or its start reports
    // the error.
    if (!settled.ok()) surroundings_.on_line(fmt::format("job {}: {}", id.str(), settled.message()));
  }
  schedule_soon();
}

base::Status JobManager::settle(OpenJob& job, const model::Placement& placement, const std::vector<KnownHost>& hosts,
                                Settling settling) {
  MUSTER_ASSIGN_OR_RETURN(const auto settled, settle_shares(job.need, placement, hosts, settling, hosts_));
  for (const SettledShare& each : settled) job.running->set_share(each.host, each.share);
  if (settled.empty()) return base::ok_status();
  job.has_deferred_share = true;
  if (settling == Settling::kHostKnown) {
    record_share_soon(job);
  } else {
    record(job.id, {job.running->recovery()}, {});
  }
  return base::ok_status();
}

// The recovery has all hosts of the job, and the hosts of a large job become known one by one.
void JobManager::record_share_soon(OpenJob& job) {
  if (job.share_record.armed()) return;
  job.share_record = loop_.after(kSharePause, [this, id = job.id] {
    OpenJob* const due = find(id);
    if (due == nullptr || due->running == nullptr) return;
    due->share_record.cancel();
    if (!due->running->is_over()) record(id, {due->running->recovery()}, {});
  });
}

void JobManager::settle_before_launch(const base::JobId& id, const std::vector<KnownHost>& hosts, ShareSettled done) {
  for (const KnownHost& host : hosts) {
    if (hosts_.learn(host.name, host.shape, host.identity)) schedule();
  }
  settle_or_wait(id, hosts, std::move(done));
}

void JobManager::settle_or_wait(const base::JobId& id, const std::vector<KnownHost>& hosts, ShareSettled done) {
  OpenJob* const job = find(id);
  // If the job has ended, no code waits for the answer.
  if (job == nullptr || job->running == nullptr || job->running->is_over()) return;
  const base::Status settled = settle(*job, job->running->allocation(), hosts, Settling::kBeforeLaunch);
  if (settled.code() == Code::kUnavailable) {
    waiting_shares_.insert_or_assign(
        id, WaitingShare{.why = settled.message(),
                         .try_again = [this, id, hosts, done = std::move(done)] { settle_or_wait(id, hosts, done); }});
    return;
  }
  if (!settled.ok() || !(job->has_deferred_share || job->running->has_merged_hosts())) return done(settled);
  // The batch that settle() has recorded may fail alone, so ask for the same content again.
  record(id, {job->running->recovery()}, [this, id, done = std::move(done)](const base::Status& status) {
    if (is_open(id)) done(status);  // if the job is closed, its runner is gone
  });
}

}  // namespace muster::launcherd::daemon
