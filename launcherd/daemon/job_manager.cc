#include "launcherd/daemon/job_manager.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "base/strings.h"
#include "launcherd/daemon/job_view.h"
#include "launcherd/daemon/late_share.h"
#include "model/gpu_binding.h"
#include "model/host_binding.h"
#include "model/job_placement.h"
#include "proto/convert.h"

namespace muster::launcherd {
namespace {

using base::Code;

constexpr std::size_t kMostOpenJobs = 1'000'000;
constexpr int kMusterFailed = 125;
constexpr int kTimedOut = 124;
constexpr int kTerminated = 128 + SIGTERM;
// Until a start that could not be stored is tried again.
constexpr std::chrono::seconds kRecordPause{1};

// The job with its variables, from the store.
base::Result<proto::Submission> read_submission(StoreReader& reader, const base::JobId& id) {
  MUSTER_ASSIGN_OR_RETURN(v1::StoredSpec spec, stored_spec(reader, id));
  MUSTER_ASSIGN_OR_RETURN(const std::string bytes, reader.environment(id));
  v1::StoredEnvironment environment;
  if (!environment.ParseFromString(bytes)) {
    return base::error(Code::kDataLoss, "job {}: its stored environment is none: submit it again", id.str());
  }
  *spec.mutable_request()->mutable_environment() = std::move(*environment.mutable_environment());
  *spec.mutable_request()->mutable_role_environment() = std::move(*environment.mutable_role_environment());
  return proto::submission_of(spec.request());
}

model::JobEnded ended_without_ranks(const base::JobId& id, int exit_code) {
  model::JobEnded ended;
  ended.job_id = id.str();
  ended.exit_code = exit_code;
  return ended;
}

// Of a batch that no disk would take: BatchWriter::commit.
bool is_wrong_in_itself(const base::Status& status) {
  return status.code() == Code::kInvalidArgument || status.code() == Code::kFailedPrecondition ||
         status.code() == Code::kNotFound;
}

// Of a job that was let in. The list of hosts may be another one since.
JobNeed need_as_it_was(const model::JobSpec& job, const std::vector<SlotHost>& hosts, int size) {
  JobNeed need{.request = job.placement, .places = job.places, .share = share_wish(job)};
  if (auto fitting = need_of(job, hosts); fitting.ok()) need = std::move(*fitting);
  need.request.np = size;
  return need;
}

BootstrapTarget target_of(const model::HostSpec& host) {
  return {.name = host.name, .user = host.user, .port = host.port};
}

// What is to be said of a host; `problem`: of its agent.
std::string problem_of(const SlotHost& host, const std::string& problem) {
  if (host.source == SlotSource::kAwaited)
    return "being asked how many GPUs it has: so many slots; no job starts there before";
  if (host.source != SlotSource::kUnknown || problem.empty()) return problem;
  return problem + "; it counts as one slot, as its GPUs are not known";
}

base::Status not_open(const base::JobId& id) {
  return base::error(Code::kNotFound, "there is no open job {}", id.str());
}

}  // namespace

JobManager::JobManager(JobSurroundings surroundings, JobStore* store, HostTable hosts)
    : surroundings_(std::move(surroundings)),
      loop_(*surroundings_.loop),
      store_(store),
      admission_(store, surroundings_.clock, surroundings_.more_hosts_come),
      hosts_(std::move(hosts)),
      held_(loop_, &hosts_, [this](const v1::SubmitRequest& request, Reply<v1::SubmitResponse> reply) {
        admit(request, std::move(reply));
      }) {}

JobManager::~JobManager() {
  is_alive_.reset();
}

JobManager::OpenJob* JobManager::find(const base::JobId& id) {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second;
}

void JobManager::submit(const v1::SubmitRequest& request, Reply<v1::SubmitResponse> reply) {
  if (is_leaving_) {
    reply(base::error(Code::kUnavailable, "launcherd is being ended: submit to the next one"));
    return;
  }
  if (jobs_.size() + held_.size() >= kMostOpenJobs) {
    reply(base::error(Code::kResourceExhausted, "{} jobs wait or run already: submit again later", jobs_.size()));
    return;
  }
  held_.take(request, std::move(reply));
}

void JobManager::admit(const v1::SubmitRequest& request, Reply<v1::SubmitResponse> reply) {
  const std::uint64_t number = next_number_++;
  admission_.submit(
      request, hosts_.slots(), [this, number](JobAdmission::Admitted job) { admitted(std::move(job), number); },
      std::move(reply));
}

void JobManager::admitted(JobAdmission::Admitted job, std::uint64_t number) {
  ++counters_.submitted;
  OpenJob open{.id = job.id,
               .size = job.need.ranks(),
               .retention = job.submission.retention,
               .roles = model::role_ranks(job.submission.job.roles)};
  enqueue(std::move(open), job.request.priority(), number, std::move(job.need), job.submission.wishes.deadline);
}

void JobManager::enqueue(OpenJob job, int priority, std::uint64_t number, JobNeed need,
                         std::optional<base::WallTime> deadline) {
  const base::JobId id = job.id;
  job.deadline = deadline_timer(id, deadline);
  jobs_.insert_or_assign(id, std::move(job));
  queue_.add(id, priority, number, std::move(need));
  if (on_change) on_change(id);
  schedule();
}

base::Timer JobManager::deadline_timer(const base::JobId& id, std::optional<base::WallTime> deadline) {
  if (!deadline) return {};
  const auto left = std::max(*deadline - surroundings_.clock->wall(), base::WallTime::duration::zero());
  return loop_.after(std::chrono::duration_cast<base::Duration>(left), [this, id] { pass_deadline(id); });
}

// ------------------------------------------------------------------------------------------------ restart

base::Status JobManager::load_blocking(StoreReader& reader) {
  MUSTER_ASSIGN_OR_RETURN(const auto hosts, reader.hosts());
  for (const StoredHost& host : hosts) hosts_.apply(host);
  for (std::int64_t after = 0;;) {
    MUSTER_ASSIGN_OR_RETURN(const auto page, reader.open_jobs(after, kLongestPage));
    if (page.empty()) break;
    for (const StoredJob& stored : page) MUSTER_RETURN_IF_ERROR(load_job(reader, stored));
    after = page.back().number;
  }
  ask_for_gpus();
  return base::ok_status();
}

// One job that another launcherd wrote, or the disk spoilt, keeps the others from nothing.
base::Status JobManager::load_job(StoreReader& reader, const StoredJob& stored) {
  const auto spec = stored_spec(reader, stored.id);
  if (!spec.ok() && spec.status().code() != Code::kDataLoss) return spec.status();
  base::Status loaded = spec.status();
  if (loaded.ok() && stored.state == model::JobState::kQueued) {
    loaded = let_wait(reader, stored, *spec);
  } else if (loaded.ok()) {
    loaded = take_up(reader, stored, *spec);
  }
  if (!loaded.ok()) give_up(stored, spec.ok() ? *spec : v1::StoredSpec(), loaded.message());
  return base::ok_status();
}

base::Status JobManager::let_wait(StoreReader& reader, const StoredJob& stored, const v1::StoredSpec& spec) {
  MUSTER_RETURN_IF_ERROR(proto::submission_of(spec.request()).status());  // what is wrong is said of the job itself
  MUSTER_ASSIGN_OR_RETURN(const proto::Submission submission, read_submission(reader, stored.id));
  // The list of hosts may be another one: then it waits for them, as the reason says.
  JobNeed need = need_as_it_was(submission.job, hosts_.slots(), spec.size());
  OpenJob job{.id = stored.id,
              .size = spec.size(),
              .retention = submission.retention,
              .roles = model::role_ranks(submission.job.roles)};
  enqueue(std::move(job), stored.priority, next_number_++, std::move(need), submission.wishes.deadline);
  return base::ok_status();
}

base::Status JobManager::take_up(StoreReader& reader, const StoredJob& stored, const v1::StoredSpec& spec) {
  BegunJob begun{.job = stored, .recovery = {}, .ranks = {}};
  MUSTER_ASSIGN_OR_RETURN(const std::string bytes, reader.recovery(stored.id));
  MUSTER_ASSIGN_OR_RETURN(begun.recovery, recovery_of(bytes));
  MUSTER_ASSIGN_OR_RETURN(const proto::Submission submission, read_submission(reader, stored.id));
  for (int first = 0;;) {
    MUSTER_ASSIGN_OR_RETURN(const auto page, reader.ranks(stored.id, begun.recovery.attempt, first, kLongestPage));
    if (page.empty()) break;
    first = page.back().rank + 1;
    begun.ranks.insert(begun.ranks.end(), page.begin(), page.end());
  }
  OpenJob& job =
      jobs_
          .insert_or_assign(stored.id, OpenJob{.id = stored.id, .size = spec.size(), .retention = submission.retention})
          .first->second;
  job.deadline = deadline_timer(stored.id, submission.wishes.deadline);
  job.need = need_as_it_was(submission.job, hosts_.slots(), spec.size());
  job.has_run = stored.state != model::JobState::kStarting || !begun.ranks.empty();
  hosts_.take(begun.recovery.placement);
  job.running = std::make_unique<RunningJob>(surroundings_, std::move(begun), owner_of(stored.id));
  job.running->start(submission.job, submission.wishes);
  return base::ok_status();
}

// Nobody knows any more how it goes on, or how it would begin.
void JobManager::give_up(const StoredJob& stored, const v1::StoredSpec& spec, const std::string& why) {
  const auto submission = proto::submission_of(spec.request());
  OpenJob job{.id = stored.id, .size = spec.size(), .has_ended = true};
  job.retention = submission.ok() ? submission->retention : proto::Submission().retention;
  jobs_.insert_or_assign(stored.id, std::move(job));
  const bool has_waited = stored.state == model::JobState::kQueued;
  const std::string reason =
      has_waited ? fmt::format("it waited, and this launcherd does not understand it: {}: submit it again", why)
                 : fmt::format("launcherd ended while it ran, and it cannot be found again: {}", why);
  surroundings_.on_line(fmt::format("job {}: {}", stored.id.str(), reason));
  record(stored.id,
         end_of_job(stored.id, stored.attempt, has_waited ? model::JobState::kFailed : model::JobState::kLost, reason,
                    ended_without_ranks(stored.id, kMusterFailed), surroundings_.clock->wall()),
         [this, id = stored.id](const base::Status&) { ended(id); });
}

RunningJobOwner JobManager::owner_of(const base::JobId& id) {
  return {.record = [this, id](Batch batch) { record(id, std::move(batch), {}); },
          .on_ended = [this, id] { loop_.post(while_alive([this, id] { ended(id); })); },
          .settle_shares =
              [this, id](const std::vector<KnownHost>& hosts, std::function<void(const base::Status&)> done) {
                const base::Status settled = settle_shares(id, hosts, Settling::kBeforeLaunch);
                const OpenJob* const job = find(id);
                if (!settled.ok() || job == nullptr || !job->has_late_share) return done(settled);
                // Batches are committed in their order: what was decided is on the disk then.
                store_->record({}, while_alive([this, id, done = std::move(done)](const base::Status& status) {
                                 if (is_open(id)) done(status);  // else its runner is gone
                               }));
              }};
}

// ------------------------------------------------------------------------------------------------ start

void JobManager::schedule() {
  if (std::exchange(is_scheduled_, true)) return;
  loop_.post(while_alive([this] {
    is_scheduled_ = false;
    if (!is_leaving_) start_what_fits();
  }));
}

void JobManager::start_what_fits() {
  std::vector<SlotHost> slots = hosts_.slots();
  for (const JobQueue::Start& each : queue_.start(slots)) start(each);
  for (const model::HostSpec& host : queue_.hosts_to_ask(slots)) ask(host);
}

void JobManager::start(const JobQueue::Start& start) {
  OpenJob* const job = find(start.id);
  MUSTER_CHECK(job != nullptr && job->running == nullptr);
  hosts_.take(start.placement);
  const base::JobId id = start.id;
  model::Placement placement = start.placement;
  placement.roles = job->roles;
  job->need = start.need;
  job->running = std::make_unique<RunningJob>(surroundings_, id, std::move(placement), owner_of(id));
  record_start(id);
}

// Nothing of it runs before the disk knows, so that nothing runs twice after a crash.
void JobManager::record_start(const base::JobId& id) {
  OpenJob* const job = find(id);
  if (job == nullptr || job->running == nullptr) return;
  record(id, {job->running->starting(surroundings_.clock->wall()), job->running->recovery()},
         [this, id](const base::Status& status) {
           if (status.ok()) {
             launch(id);
           } else {
             start_not_recorded(id, status);
           }
         });
}

// The store has it waiting still.
void JobManager::start_not_recorded(const base::JobId& id, const base::Status& why) {
  OpenJob* const job = find(id);
  if (job == nullptr || job->running == nullptr) return;
  if (is_wrong_in_itself(why)) {
    job->running->start_refused(why);
  } else {
    job->start_again = loop_.after(kRecordPause, [this, id] { record_start(id); });
  }
}

void JobManager::launch(const base::JobId& id) {
  store_->read<proto::Submission>(
      [id](StoreReader& reader) { return read_submission(reader, id); },
      while_alive([this, id](base::Result<proto::Submission> submission) { launched(id, submission); }));
}

void JobManager::launched(const base::JobId& id, const base::Result<proto::Submission>& submission) {
  OpenJob* const job = find(id);
  // Nobody would stop any more what starts while launcherd leaves: the next one finds it starting.
  if (job == nullptr || job->running == nullptr || is_leaving_) return;
  if (!submission.ok()) {
    job->running->start_failed(submission.status());
    return;
  }
  job->running->start(submission->job, submission->wishes);
}

// ------------------------------------------------------------------------------------------------ end

void JobManager::kill(const base::JobId& id, bool at_once, std::function<void(base::Status)> done) {
  OpenJob* const job = find(id);
  if (job == nullptr || job->has_ended) {
    done(not_open(id));
    return;
  }
  if (job->running == nullptr) {
    end_waiting(id, model::JobState::kKilled, kTerminated, "killed while it waited", std::move(done));
    return;
  }
  job->running->stop(StopCause::kTerminate, "killed");
  if (at_once) job->running->stop(StopCause::kTerminate, "killed");
  done(base::ok_status());
}

void JobManager::pass_deadline(const base::JobId& id) {
  OpenJob* const job = find(id);
  if (job == nullptr || job->has_ended) return;
  if (job->running == nullptr) {
    end_waiting(id, model::JobState::kKilled, kTimedOut, "its deadline passed while it waited",
                [](const base::Status&) {});
  } else {
    job->running->stop(StopCause::kTimeout, "its deadline has passed");
  }
}

void JobManager::end_waiting(const base::JobId& id, model::JobState state, int exit_code, const std::string& reason,
                             std::function<void(base::Status)> done) {
  queue_.remove(id);
  find(id)->has_ended = true;
  record(id, end_of_job(id, 0, state, reason, ended_without_ranks(id, exit_code), surroundings_.clock->wall()),
         [this, id, done = std::move(done)](const base::Status& status) {
           ended(id);
           done(status);  // an error: the next launcherd would find it waiting
         });
  schedule();
}

// The job's last record is written or on its way.
void JobManager::ended(const base::JobId& id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  OpenJob job = std::move(found->second);
  jobs_.erase(found);
  if (job.running != nullptr) hosts_.give(job.running->placement());
  job.running.reset();  // with it who writes the journal
  surroundings_.logs->journal_ended(journal_path(surroundings_, id));
  forget_soon(id, job.retention);
  if (is_leaving_ && left_ && std::ranges::none_of(jobs_, [](const auto& each) {
        return each.second.running != nullptr && !each.second.running->holds();
      })) {
    std::exchange(left_, nullptr)();
  }
  schedule();
}

void JobManager::forget_soon(const base::JobId& id, std::chrono::seconds retention) {
  if (on_ended) on_ended(id, surroundings_.clock->wall() + retention);
}

void JobManager::count(const Batch& batch) {
  for (const Change& change : batch) {
    const auto* const event = std::get_if<NewEvent>(&change);
    if (event == nullptr) continue;
    if (event->job_step && model::is_final(event->job_step->to)) {
      ++(event->job_step->to == model::JobState::kSucceeded ? counters_.ended_well : counters_.ended_badly);
    }
    if (event->rank_step && model::is_final(event->rank_step->to)) {
      ++(event->rank_step->to == model::RankState::kSucceeded ? counters_.rank_exits_ok : counters_.rank_exits_failed);
    }
  }
}

void JobManager::record(const base::JobId& id, Batch batch, std::function<void(const base::Status&)> stored) {
  count(batch);
  store_->record(
      std::move(batch), while_alive([this, id, stored = std::move(stored)](const base::Status& status) {
        if (!status.ok()) {
          surroundings_.on_line(fmt::format("job {}: an event could not be stored: {}", id.str(), status.message()));
        }
        if (stored) stored(status);
        if (on_change) on_change(id);
      }));
}

base::Status JobManager::signal(const base::JobId& id, int signo) {
  OpenJob* const job = find(id);
  if (job == nullptr) return not_open(id);
  if (job->running == nullptr) {
    return base::error(Code::kFailedPrecondition, "job {} waits for slots: no rank of it runs", id.str());
  }
  return job->running->signal_ranks(signo);
}

base::Status JobManager::stacks(const base::JobId& id, const std::vector<int>& ranks,
                                std::function<void(v1::ProcessStack)> on_process, base::Loop::Task done) {
  OpenJob* const job = find(id);
  if (job == nullptr) return not_open(id);
  if (job->running == nullptr) {
    return base::error(Code::kFailedPrecondition, "job {} waits for slots: no rank of it runs", id.str());
  }
  return job->running->stacks(ranks, std::move(on_process), std::move(done));
}

void JobManager::describe(v1::Job& job) const {
  const auto id = base::JobId::parse(job.id());
  const auto found = id.ok() ? jobs_.find(*id) : jobs_.end();
  if (found == jobs_.end()) return;
  if (found->second.running != nullptr) {
    found->second.running->describe(job);
    if (const auto rate = surroundings_.pool->output_rate(job.id())) job.set_output_bytes_per_second(*rate);
  } else if (const std::string reason = queue_.reason(*id, hosts_.slots()); !reason.empty()) {
    job.set_reason(reason);
  }
}

// ------------------------------------------------------------------------------------------------ hosts

void JobManager::drain(const std::string& host, const std::string& reason, Reply<v1::LauncherHost> reply) {
  if (reason.size() > 1024) {
    reply(base::error(Code::kInvalidArgument, "reason: {} bytes are more than 1024", reason.size()));
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
  store_->append({*host}, while_alive([this, host = *host, reply = std::move(reply)](const base::Status& status) {
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
    // What its agent said while the host was not in the list was not heard.
    if (state == v1::AGENT_STATE_UP) learn_from_agent(host.name, target);
  }
  ask_for_gpus();
  held_.look_again();
  schedule();
}

// By their agents, which the first job there would start anyway.
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

std::vector<v1::LauncherHost> JobManager::host_messages() const {
  std::vector<v1::LauncherHost> messages;
  for (const SlotHost& host : hosts_.slots()) {
    v1::LauncherHost& message = messages.emplace_back(hosts_.message_of(host));
    const PoolHostView view = surroundings_.pool->view(target_of(host.host));
    message.set_agent(view.state);
    message.set_problem(problem_of(host, view.problem));
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

void JobManager::agent_changed(const std::string& name) {
  const auto found = hosts_.find(name);
  if (!found.ok()) return;  // a job's host that is not in the list any more
  const SlotHost& host = **found;
  const BootstrapTarget target = target_of(host.host);
  const v1::AgentState state = surroundings_.pool->state(target);
  const bool was_awaited = host.source == SlotSource::kAwaited;
  // One that failed is back when its agent is up, not when that is tried again.
  const bool is_down = state == v1::AGENT_STATE_FAILED || (host.is_down && state != v1::AGENT_STATE_UP);
  const bool was_down = host.is_down;
  hosts_.set_down(name, is_down);
  if (is_down && !was_down) {
    surroundings_.on_line(fmt::format("{}; jobs wait for it, and it is tried again{}",
                                      surroundings_.pool->view(target).problem,
                                      was_awaited ? "; it counts as one slot, as its GPUs are not known" : ""));
  } else if (!is_down && was_down) {
    surroundings_.on_line(fmt::format("{} is back", name));
    schedule();
  }
  if (state == v1::AGENT_STATE_UP) learn_from_agent(name, target);
  if (!was_awaited || host.source == SlotSource::kAwaited) return;
  if (hosts_.count_awaited() == 0) {
    surroundings_.on_line(
        fmt::format("hosts without slots were asked for their GPUs: {} slots in all", hosts_.total_slots()));
  }
  // Not from here: whoever is told may submit again.
  loop_.post(while_alive([this] { held_.look_again(); }));
}

void JobManager::learn_from_agent(const std::string& name, const BootstrapTarget& target) {
  const model::NodeShape shape = proto::node_shape_of(surroundings_.pool->view(target).hello);
  // No mask of launcherd's own, and no job's pinning: jobs bring theirs.
  if (hosts_.set_gpus(name, model::count_gpus(shape, {}))) schedule();
  learn(name, shape);
}

void JobManager::learn(const std::string& name, const model::NodeShape& shape) {
  if (!hosts_.learn(name, shape)) return;
  for (const auto& [id, job] : jobs_) {
    if (job.running == nullptr) continue;
    const base::Status settled = settle_shares(id, {{name, shape, job.has_run}}, Settling::kHostKnown);
    // It is asked again before it starts, and its start says so.
    if (!settled.ok()) surroundings_.on_line(fmt::format("job {}: {}", id.str(), settled.message()));
  }
  schedule();
}

// Of hosts where the job has none yet; nobody else has been started on them since it was. Before ranks are told what
// they may use, also of hosts that are not any more what they were when the share was decided.
base::Status JobManager::settle_shares(const base::JobId& id, const std::vector<KnownHost>& hosts, Settling settling) {
  OpenJob* const job = find(id);
  if (job == nullptr || job->running == nullptr) return base::ok_status();
  const bool has_ranks = std::ranges::any_of(hosts, &KnownHost::was_told);
  bool is_any = false;
  for (const model::PlacedHost& placed : job->running->placement().hosts) {
    const auto known = std::ranges::find(hosts, placed.host.name, &KnownHost::name);
    if (known == hosts.end()) continue;
    const std::optional<model::HostShare> old = placed.share;
    const auto places = model::places_on(job->need.places, placed);
    const bool may_change = settling == Settling::kBeforeLaunch && !known->was_told;
    if (old && (!may_change || is_there_still(*old, job->need.share, known->shape, places))) continue;
    if (hosts_.learn(known->name, known->shape)) schedule();
    const auto slot_host = hosts_.find(known->name);
    if (!old && !slot_host.ok()) continue;  // not in the list any more: nobody else comes there
    if (old) hosts_.give_share(known->name, *old);
    std::optional<model::HostShare> share;
    if (known->was_told) {
      share = share_that_runs(job->need.share, known->shape, (*slot_host)->slots, places);
    } else if (slot_host.ok()) {
      auto decided = share_of(job->need.share, known->shape, (*slot_host)->use, (*slot_host)->slots, places);
      if (!decided.ok() && old) {
        hosts_.take_share(known->name, *old);
        return base::error(Code::kFailedPrecondition,
                           "{}: its cores or GPUs are others than when the job was placed: {}", known->name,
                           decided.status().message());
      }
      // Where ranks of it run, it is not ended for the sake of others.
      if (!decided.ok() && !has_ranks) return decided.status().with_context(known->name);
      if (decided.ok()) share = *std::move(decided);
    }
    if (!old && !share) continue;
    if (share) hosts_.take_share(known->name, *share);
    job->running->set_share(known->name, share);
    is_any = true;
  }
  if (is_any) {
    job->has_late_share = true;
    record(id, {job->running->recovery()}, {});
  }
  return base::ok_status();
}

void JobManager::leave(base::Loop::Task done) {
  const bool is_again = std::exchange(is_leaving_, true);
  bool is_any = false;
  for (auto& [id, job] : jobs_) {
    // One whose start is being stored has nothing that runs, and holds: its disk may be full for ever.
    if (job.running == nullptr || job.running->holds()) continue;
    is_any = true;
    job.running->stop(StopCause::kTerminate, "launcherd was ended");
  }
  held_.refuse_all(base::error(Code::kUnavailable, "launcherd is being ended: submit to the next one"));
  if (is_again) return;
  left_ = std::move(done);
  if (!is_any) std::exchange(left_, nullptr)();
}

}  // namespace muster::launcherd
