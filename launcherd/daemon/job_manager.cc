// The part of JobManager that accepts, starts and ends jobs, and answers questions about them.
// Read it in this order: submit, admitted, enqueue, start_what_fits, start, record_start, launch; then kill, ended,
// leave.
#include "launcherd/daemon/job_manager.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "launcherd/daemon/dependencies.h"
#include "launcherd/daemon/job_view.h"
#include "model/exit_code.h"
#include "model/job_placement.h"

namespace muster::launcherd::inline daemon {
namespace {

using base::Code;

// Returns the group of a job for fair use.
std::string group_of(const FairUse& fair_use, const v1::SubmitRequest& request, const std::string& user) {
  if (!fair_use.is_on) return "";
  if (fair_use.label.empty()) return user;
  const auto label = std::ranges::find(request.labels(), fair_use.label, &v1::NameValue::name);
  return label == request.labels().end() ? "" : label->value();
}

constexpr std::size_t kMostOpenJobs = 1'000'000;
constexpr std::size_t kManyHosts = 256;
constexpr std::chrono::milliseconds kSchedulePause{50};
// Pause before the next try to store a start.
constexpr std::chrono::seconds kRecordPause{1};

// Returns whether the batch itself is wrong, so that no retry can store it (BatchWriter::commit).
bool is_wrong_in_itself(const base::Status& status) {
  return status.code() == Code::kInvalidArgument || status.code() == Code::kFailedPrecondition ||
         status.code() == Code::kNotFound;
}

}  // namespace

JobManager::JobManager(JobSurroundings surroundings, JobStore* store, HostTable hosts)
    : surroundings_(std::move(surroundings)),
      loop_(*surroundings_.loop),
      store_(store),
      admission_(store, surroundings_.clock, surroundings_.more_hosts_may_join),
      hosts_(std::move(hosts)),
      held_(loop_, &hosts_,
            [this](const v1::SubmitRequest& request, const std::string& user, Reply<v1::SubmitResponse> reply) {
              admit(request, user, std::move(reply));
            }),
      notifier_(loop_) {
  if (surroundings_.fair_use.is_on) queue_.use_fairly();
}

JobManager::~JobManager() = default;

JobManager::OpenJob* JobManager::find(const base::JobId& id) {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second;
}

base::Status JobManager::not_open(const base::JobId& id) {
  return base::not_found("job {} is not open: it has ended or never existed", id.str());
}

void JobManager::submit(const v1::SubmitRequest& request, const std::string& user, Reply<v1::SubmitResponse> reply) {
  if (is_leaving_) {
    reply(base::unavailable("launcherd is shutting down: submit again after its restart"));
    return;
  }
  if (jobs_.size() + held_.size() >= kMostOpenJobs) {
    reply(base::resource_exhausted("{} jobs are open already: submit again later", jobs_.size()));
    return;
  }
  held_.add(request, user, std::move(reply));
}

void JobManager::admit(const v1::SubmitRequest& request, const std::string& user, Reply<v1::SubmitResponse> reply) {
  const std::uint64_t number = next_number_++;
  const auto submit = [this, request, user, reply, number](std::vector<model::JobDependency> after) {
    admission_.submit(
        request, user, hosts_.slots(), std::move(after),
        [this, number](JobAdmission::Admitted job) { admitted(std::move(job), number); }, reply);
  };
  if (request.after().empty()) return submit({});
  store_->read<std::vector<model::JobDependency>>(
      [request](StoreReader& reader) { return read_dependencies(reader, request); },
      gate_.wrap([submit, reply](base::Result<std::vector<model::JobDependency>> after) {
        if (!after.ok()) return reply(after.status());
        submit(*std::move(after));
      }));
}

JobManager::OpenJob JobManager::open_job(const base::JobId& id, int size, const proto::Submission& submission,
                                         const v1::SubmitRequest& request, const std::string& user, int priority,
                                         std::optional<std::uint64_t> number) {
  OpenJob job{.id = id,
              .size = size,
              .retention = submission.retention,
              .roles = model::role_ranks(submission.job.roles),
              .sized = sized_job(id, submission, priority, number ? *number : next_number_++),
              .is_live = submission.job.live.has_value()};
  job.notifies = !submission.notify.empty();
  job.group = group_of(surroundings_.fair_use, request, user);
  job.deadline_at = submission.requests.deadline;
  job.limit = submission.job.timeout;
  job.has_end_signal = submission.job.end_signal.has_value();
  return job;
}

void JobManager::admitted(JobAdmission::Admitted job, std::uint64_t number) {
  ++counters_.submitted;
  trace_new(job);
  meter_.add(job.id, surroundings_.clock->wall(), std::nullopt, model::JobState::kQueued);
  OpenJob open =
      open_job(job.id, job.need.ranks(), job.submission, job.request, job.user, job.request.priority(), number);
  if (job.request.held()) open.held_by = job.user;
  if (job.submission.array) make_array(open, job.submission, job.request, job.user);
  enqueue(std::move(open), std::move(job.need), std::move(job.after));
}

void JobManager::enqueue(OpenJob job, JobNeed need, std::vector<model::JobDependency> after) {
  const base::JobId id = job.id;
  after_.set(id, std::move(after));
  job.deadline = deadline_timer(id, job.deadline_at);
  if (job.array) job.need = need;
  OpenJob& open = jobs_.insert_or_assign(id, std::move(job)).first->second;
  if (open.array) {
    offer_elements(open);
  } else {
    queue_.add(id, {.priority = open.sized.priority, .number = open.sized.number, .group = open.group},
               std::move(need));
    block_or_release(open);
  }
  if (on_change) on_change(id);
  check_awaited(id);
  schedule();
}

void JobManager::block_or_release(const OpenJob& job) {
  if (job.held_by || job.is_after_changing || !after_.awaited_by(job.id).empty()) {
    queue_.hold(job.id);
  } else {
    queue_.release(job.id);
  }
}

base::Timer JobManager::deadline_timer(const base::JobId& id, std::optional<base::WallTime> deadline) {
  if (!deadline) return {};
  const auto left = std::max(*deadline - surroundings_.clock->wall(), base::WallTime::duration::zero());
  return loop_.after(std::chrono::duration_cast<base::Duration>(left), [this, id] { pass_deadline(id); });
}

RunningJobOwner JobManager::owner_of(const base::JobId& id) {
  return {.record = [this, id](Batch batch) { record(id, std::move(batch), {}); },
          .on_ended = [this, id] { loop_.post(gate_.wrap([this, id] { ended(id); })); },
          .settle_shares = [this, id](const std::vector<KnownHost>& hosts,
                                      ShareSettled done) { settle_before_launch(id, hosts, std::move(done)); },
          .offers = [this, id](Availability when) { return offers(id, when); },
          .further_share = [this, id](const std::string& host, int ranks) { return further_share(id, host, ranks); },
          .reallocate = [this, id](const Reallocation& change) { reallocate(id, change); },
          .on_waiting =
              [this, id](bool waits) {
                if (waits) waiting_for_hosts_.insert(id);
                if (!waits) waiting_for_hosts_.erase(id);
              },
          .when_stored =
              [this, id](Batch batch, Stored done) {
                record(id, std::move(batch), [this, done = std::move(done)](const base::Status& status) {
                  // The next launcherd begins the generation if this one is about to end.
                  if (!is_leaving_) done(status);
                });
              },
          .on_generation = [this](GenerationCause cause) { count_generation(cause); },
          .on_running_again =
              [this](base::Duration taken) {
                const double seconds = std::chrono::duration<double>(taken).count();
                counters_.last_change_seconds = seconds;
                counters_.change_seconds += seconds;
                ++counters_.changes_timed;
              },
          .on_first_collective =
              [this](std::chrono::milliseconds taken) {
                counters_.last_collective_seconds = std::chrono::duration<double>(taken).count();
                counters_.collective_seconds += counters_.last_collective_seconds;
                ++counters_.collectives_timed;
              }};
}

// ------------------------------------------------------------------------------------------------ start

void JobManager::schedule() {
  if (std::exchange(is_scheduled_, true)) return;
  loop_.post(gate_.wrap([this] {
    is_scheduled_ = false;
    if (!is_leaving_) start_what_fits();
  }));
}

// The hosts of a large launcherd become known one by one, and each look at the queue costs time for each host.
void JobManager::schedule_soon() {
  if (hosts_.slots().size() <= kManyHosts) return schedule();
  if (is_scheduled_ || schedule_pause_.armed()) return;
  schedule_pause_ = loop_.after(kSchedulePause, [this] {
    schedule_pause_.cancel();
    schedule();
  });
}

void JobManager::start_what_fits() {
  if (jobs_.empty()) return change_sizes();
  for (const auto& [id, waiting] : std::exchange(waiting_shares_, {})) waiting.try_again();
  serve_waiting_jobs();
  std::vector<SlotHost> slots = hosts_.slots();
  for (const JobQueue::Start& each : queue_.start(slots)) start(each);
  for (const model::HostSpec& host : queue_.hosts_to_ask(slots)) ask(host);
  change_sizes();
}

void JobManager::start(const JobQueue::Start& start) {
  OpenJob* const job = find(start.id);
  MUSTER_CHECK(job != nullptr && job->running == nullptr);
  hosts_.acquire(start.placement);
  quiet_since_ = job->sized.changed_at = surroundings_.clock->now();
  if (job->array) return start_element(start);
  job->used_slots = start.placement.size;
  job->started_at = surroundings_.clock->wall();
  const base::JobId id = start.id;
  model::Placement placement = start.placement;
  placement.roles = job->roles;
  job->need = start.need;
  job->running = std::make_unique<RunningJob>(surroundings_, id, std::move(placement), owner_of(id));
  record_start(id);
}

// Stores the start before anything of the job runs, so that nothing runs twice after a crash.
void JobManager::record_start(const base::JobId& id) {
  OpenJob* const job = find(id);
  if (job == nullptr || job->running == nullptr) return;
  Batch batch = job->element ? element_record(*job) : Batch();
  batch.push_back(job->running->starting(surroundings_.clock->wall()));
  batch.push_back(job->running->recovery());
  record(id, std::move(batch), [this, id](const base::Status& status) {
    if (status.ok()) {
      launch(id);
    } else {
      start_not_recorded(id, status);
    }
  });
}

// Called if the start could not be stored. In the store the job still waits.
void JobManager::start_not_recorded(const base::JobId& id, const base::Status& why) {
  OpenJob* const job = find(id);
  if (job == nullptr || job->running == nullptr) return;
  OpenJob* const array = job->element ? find(job->element->array) : nullptr;
  // The batch may have had the start of the array, too.
  if (array != nullptr && array->array->running().size() == 1) array->array->state = model::JobState::kQueued;
  if (is_wrong_in_itself(why)) {
    job->running->start_refused(why);
  } else {
    job->start_again = loop_.after(kRecordPause, [this, id] { record_start(id); });
  }
}

void JobManager::launch(const base::JobId& id) {
  const OpenJob* const job = find(id);
  if (job == nullptr) return;
  // The array has the environment of its elements.
  const base::JobId source = job->element ? job->element->array : id;
  store_->read<StoredStart>(
      [source](StoreReader& reader) -> base::Result<StoredStart> {
        MUSTER_ASSIGN_OR_RETURN(proto::Submission submission, stored_submission(reader, source));
        MUSTER_ASSIGN_OR_RETURN(std::string environment, reader.environment(source));
        return StoredStart{std::move(submission), std::move(environment)};
      },
      gate_.wrap([this, id](base::Result<StoredStart> stored) { launched(id, std::move(stored)); }));
}

void JobManager::launched(const base::JobId& id, base::Result<StoredStart> stored) {
  OpenJob* const job = find(id);
  // Start no job while launcherd leaves, because nothing would stop it. The next launcherd finds this job in the state
  // STARTING.
  if (job == nullptr || job->running == nullptr || is_leaving_) return;
  if (!stored.ok()) {
    job->running->start_failed(stored.status());
    return;
  }
  if (job->element) {
    add_array_variables(*job->element, stored->submission.job);
  } else {
    job->environment = std::move(stored->environment);
  }
  job->running->start(stored->submission.job, stored->submission.requests);
}

// ------------------------------------------------------------------------------------------------ end

void JobManager::kill(const base::JobId& id, bool at_once, std::function<void(base::Status)> done) {
  OpenJob* const job = find(id);
  if (job == nullptr || job->has_ended) {
    done(not_open(id));
    return;
  }
  if (job->array) return kill_array(id, StopCause::kTerminate, "killed", at_once, std::move(done));
  if (job->running == nullptr) {
    end_waiting(id, model::JobState::kKilled, model::kTerminated, "killed while it waited for slots", std::move(done));
    return;
  }
  job->running->stop(StopCause::kTerminate, "killed");
  if (at_once) job->running->stop(StopCause::kTerminate, "killed");
  done(base::ok_status());
}

void JobManager::pass_deadline(const base::JobId& id) {
  OpenJob* const job = find(id);
  if (job == nullptr || job->has_ended) return;
  if (job->array) {
    return kill_array(id, StopCause::kTimeout, std::string(kDeadlinePassed), false, [](const base::Status&) {});
  }
  if (job->running == nullptr) {
    end_waiting(id, model::JobState::kKilled, model::kTimedOut, "its deadline passed while it waited for slots",
                [](const base::Status&) {});
  } else {
    job->running->stop(StopCause::kTimeout, std::string(kDeadlinePassed));
  }
}

void JobManager::end_waiting(const base::JobId& id, model::JobState state, int exit_code, const std::string& reason,
                             std::function<void(base::Status)> done) {
  queue_.remove(id);
  OpenJob& job = *find(id);
  job.has_ended = true;
  job.end_state = state;
  job.end_code = exit_code;
  // Only elements of an array may have asked for it.
  const bool has_failed =
      job.array && job.array->state != model::JobState::kQueued && state == model::JobState::kFailed;
  const auto is_retryable = has_failed ? std::optional(exit_code != model::kNeverAgain) : std::nullopt;
  keep_environment(id, [this, id, state, exit_code, reason, is_retryable, done = std::move(done)] {
    record(id, end_without_ranks(id, 0, state, exit_code, reason, surroundings_.clock->wall(), is_retryable),
           [this, id, done](const base::Status& status) {
             ended(id);
             done(status);  // after an error the next launcherd finds the job waiting
           });
  });
  schedule();
}

// Called when the job's last record is stored or on its way to the store.
void JobManager::ended(const base::JobId& id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  OpenJob job = std::move(found->second);
  jobs_.erase(found);
  waiting_shares_.erase(id);
  waiting_for_hosts_.erase(id);
  after_.set(id, {});
  looks_again_.erase(id);
  model::JobState state = job.end_state;
  int exit_code = job.end_code;
  if (job.running != nullptr) {
    state = job.running->state();
    exit_code = job.running->exit_code();
    hosts_.release(job.running->allocation());
    queue_.count_use(job.group, -job.used_slots);
  }
  job.running.reset();  // also ends the writer of the journal
  surroundings_.logs->journal_ended(journal_path(surroundings_, id));
  if (job.element) {
    element_ended(*job.element, state, exit_code);
  } else {
    tell_waiting(id, state, exit_code);
    if (job.notifies) notify(id, state, exit_code);
    const base::WallTime now = surroundings_.clock->wall();
    if (job.environment) ended_environments_.add(id, *std::move(job.environment), now, now + job.retention);
    forget_soon(id, job.retention);
  }
  if (is_leaving_ && left_ && std::ranges::none_of(jobs_, [](const auto& each) {
        return each.second.running != nullptr && !each.second.running->holds() && !each.second.running->is_abandoning();
      })) {
    std::exchange(left_, nullptr)();
  }
  schedule();
}

void JobManager::forget_soon(const base::JobId& id, std::chrono::seconds retention) {
  if (on_ended) on_ended(id, surroundings_.clock->wall() + retention);
}

JobCounters JobManager::counters() const {
  JobCounters counters = counters_;
  for (const auto& [id, job] : jobs_) {
    if (job.has_ended) continue;
    if (job.running != nullptr) {
      counters.starting += job.running->state() == model::JobState::kStarting ? 1 : 0;
      counters.running += job.running->state() == model::JobState::kRunning ? 1 : 0;
      counters.stopping += job.running->state() == model::JobState::kStopping ? 1 : 0;
      counters.ranks += static_cast<std::uint64_t>(job.running->placement().size);
      continue;
    }
    const std::uint64_t waiting = job.array ? static_cast<std::uint64_t>(job.array->waiting()) : 1;
    counters.queued += waiting;
    counters.held += job.held_by ? waiting : 0;
  }
  return counters;
}

void JobManager::count(const Batch& batch) {
  const auto count_rank = [this](const std::optional<RankStep>& step) {
    if (!step || !model::is_final(step->to)) return;
    ++(step->to == model::RankState::kSucceeded ? counters_.rank_exits_ok : counters_.rank_exits_failed);
  };
  for (const Change& change : batch) {
    if (const auto* const group = std::get_if<NewEvents>(&change)) {
      for (const NewEvents::Event& event : group->events) count_rank(event.rank_step);
    }
    const auto* const event = std::get_if<NewEvent>(&change);
    if (event == nullptr) continue;
    if (event->job_step) meter_.step(event->job, event->job_step->to, surroundings_.clock->wall(), counters_);
    count_rank(event->rank_step);
  }
}

void JobManager::record(const base::JobId& id, Batch batch, std::function<void(const base::Status&)> stored) {
  count(batch);
  add_element_end(id, batch);
  TracedBatch spans = traced(batch);
  store_->record(std::move(batch), gate_.wrap([this, id, stored = std::move(stored),
                                               spans = std::move(spans)](const base::Status& status) {
    if (!status.ok()) {
      surroundings_.on_line(fmt::format("job {}: an event could not be stored: {}", id.str(), status.message()));
    } else {
      trace(spans);
    }
    if (stored) stored(status);
    if (on_change) on_change(id);
  }));
}

base::Status JobManager::signal(const base::JobId& id, int signo) {
  OpenJob* const job = find(id);
  if (job == nullptr) return not_open(id);
  if (job->array) return signal_array(*job, signo);
  MUSTER_RETURN_IF_ERROR(check_running(*job));
  return job->running->signal_ranks(signo);
}

base::Status JobManager::stacks(const base::JobId& id, const StackQuery& query,
                                std::function<void(v1::ProcessStack)> on_process, base::Loop::Task done) {
  OpenJob* const job = find(id);
  if (job == nullptr) return not_open(id);
  MUSTER_RETURN_IF_ERROR(check_running(*job));
  return job->running->stacks(query, std::move(on_process), std::move(done));
}

base::Result<ExecControls> JobManager::exec(const base::JobId& id, const v1::ExecRequest& first, ExecCaller caller) {
  OpenJob* const job = find(id);
  if (job == nullptr) return not_open(id);
  MUSTER_RETURN_IF_ERROR(check_running(*job));
  return job->running->exec(first, std::move(caller));
}

base::Status JobManager::explain_hang(const base::JobId& id, std::function<void(const model::HangReport&)> done) {
  OpenJob* const job = find(id);
  if (job == nullptr) return not_open(id);
  MUSTER_RETURN_IF_ERROR(check_running(*job));
  return job->running->explain_hang(std::move(done));
}

void JobManager::describe(v1::Job& job) const {
  JobQueue::Reasons reasons(queue_, hosts_.slots());
  describe(job, reasons);
}

void JobManager::describe(google::protobuf::RepeatedPtrField<v1::Job>& jobs) const {
  JobQueue::Reasons reasons(queue_, hosts_.slots());
  for (v1::Job& job : jobs) describe(job, reasons);
}

void JobManager::describe(v1::Job& job, JobQueue::Reasons& reasons) const {
  const auto id = base::JobId::parse(job.id());
  const auto found = id.ok() ? jobs_.find(*id) : jobs_.end();
  if (found == jobs_.end()) return;
  if (found->second.running != nullptr) {
    // A list has no ranks. Where ranks are listed, the reader had the size already (size_of).
    if (job.ranks().empty()) job.set_size(found->second.running->placement().size);
    found->second.running->describe(job);
    if (const auto waits = waiting_shares_.find(*id); waits != waiting_shares_.end()) job.set_reason(waits->second.why);
    if (const auto rate = surroundings_.pool->output_rate(job.id())) job.set_output_bytes_per_second(*rate);
    return;
  }
  for (const model::JobDependency& each : after_.awaited_by(*id)) *job.add_after() = proto::to_proto(each);
  std::string reason = waits_for(*id);
  if (reason.empty()) reason = reasons.of(*id);
  if (found->second.array) reason = array_reason(found->second, reason);
  if (job.set_held(found->second.held_by.has_value()); job.held()) reason = held_reason(*found->second.held_by);
  if (!reason.empty()) job.set_reason(reason);
}

void JobManager::leave(base::Loop::Task done) {
  const bool is_again = std::exchange(is_leaving_, true);
  bool is_any = false;
  for (auto& [id, job] : jobs_) {
    if (job.running == nullptr) continue;
    if (job.is_live && !job.running->has_started()) {
      job.running->stop_before_start("launcherd was stopped");
      continue;
    }
    // While the start of a job is being stored, no rank of it runs, and holds() is true. Do not wait for such a job,
    // because the disk may stay full.
    if (job.running->holds()) continue;
    // Agents that answer have the order to end its ranks. A host that does not answer must not hold up the end of
    // launcherd, and the next launcherd searches it.
    is_any = is_any || !job.running->is_abandoning();
    job.running->stop(StopCause::kTerminate, "launcherd was stopped");
  }
  held_.refuse_all(base::unavailable("launcherd is shutting down: submit again after its restart"));
  if (is_again) return;
  left_ = std::move(done);
  if (!is_any) std::exchange(left_, nullptr)();
}

}  // namespace muster::launcherd::daemon
