// All jobs of a launcherd that have not ended. It queues them, starts them when slots are free, and stores their
// events. A client gets its reply only when the disk holds what the reply confirms.
//
// job_manager.cc: jobs are submitted, start and end.
// job_manager_restart.cc: jobs of the last launcherd.
// job_manager_hold.cc: jobs that are held, released or submitted once more.
// job_manager_after.cc: jobs that wait for other jobs, updates of jobs, and expected starts.
// job_manager_trace.cc: the traces of jobs.
// job_manager_arrays.cc: arrays and their elements.
// job_manager_notify.cc: commands that run when a job has ended.
// job_manager_hosts.cc: hosts, and what jobs get of them.
// job_manager_elastic.cc: jobs that change their hosts or their size.
// job_manager_sizes.cc: which jobs change their size by themselves.
//
// Owner: Daemon.
// Thread: loop thread only, construction and destruction too. Callbacks that are pending at destruction are dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/gate.h"
#include "base/ids.h"
#include "base/loop.h"
#include "base/status.h"
#include "launcherd/daemon/array_state.h"
#include "launcherd/daemon/deferred_share.h"
#include "launcherd/daemon/ended_environments.h"
#include "launcherd/daemon/held_submissions.h"
#include "launcherd/daemon/host_table.h"
#include "launcherd/daemon/job_admission.h"
#include "launcherd/daemon/job_meter.h"
#include "launcherd/daemon/load_history.h"
#include "launcherd/daemon/notifier.h"
#include "launcherd/daemon/rerun.h"
#include "launcherd/daemon/running_job.h"
#include "launcherd/queue/dependency_graph.h"
#include "launcherd/queue/give_back.h"
#include "launcherd/queue/job_queue.h"
#include "launcherd/service/api_handler.h"
#include "launcherd/store/job_store.h"
#include "proto/job_spec_convert.h"
#include "proto/muster/v1/stored.pb.h"

namespace muster::launcherd::inline daemon {

// The reason of a job that its deadline stops.
inline constexpr std::string_view kDeadlinePassed = "its deadline has passed";

class JobManager {
 public:
  // OnChange reports that an event of the job was stored. OnEnded reports the job's end.
  using OnChange = std::function<void(const base::JobId&)>;
  using OnEnded = std::function<void(const base::JobId&, base::WallTime forget_at)>;

  // `store` is borrowed and must outlive this object.
  JobManager(JobSurroundings surroundings, JobStore* store, HostTable hosts);
  ~JobManager();

  OnChange on_change;
  OnEnded on_ended;  // the job's records and output may be removed after `forget_at`

  // Loads the open jobs and the drained hosts of the last launcherd. Call it once, before the loop runs. Afterwards it
  // asks the agents of hosts without slots in the list for their GPUs.
  base::Status load_blocking(StoreReader& reader);

  // `user` is who submits the job; it may be empty.
  void submit(const v1::SubmitRequest& request, const std::string& user, Reply<v1::SubmitResponse> reply);
  // Submits a job once more, open or ended. Errors are those of submit() and rerun.h.
  void rerun(const base::JobId& id, const std::string& request_id, const std::string& user,
             Reply<v1::SubmitResponse> reply);
  // Both run `done` when the disk has the change. NOT_FOUND: the job is not open. FAILED_PRECONDITION: the job to hold
  // no longer waits. A job that is not held may be released.
  void hold(const base::JobId& id, const std::string& user, std::function<void(base::Status)> done);
  void release(const base::JobId& id, std::function<void(base::Status)> done);

  // Changes the priority, the deadline or the dependencies of an open job (launcher.proto). `done` runs when the disk
  // has the change. NOT_FOUND: the job is not open, or a job of `after` is unknown.
  void update(const base::JobId& id, const v1::UpdateJobRequest& request, const std::string& user,
              std::function<void(base::Status)> done);

  bool is_open(const base::JobId& id) const { return jobs_.contains(id); }
  // Returns whether the job is an open array.
  bool is_array(const base::JobId& id) const;
  // Kills an open job. `done` runs when the stop has begun. For a waiting job `done` runs when the job's end is stored.
  // NOT_FOUND: the job is not open.
  void kill(const base::JobId& id, bool at_once, std::function<void(base::Status)> done);
  // Kills an element of an open array that has not started. `done` runs when its end is stored.
  void kill_unstarted(const base::JobId& array, int index, std::function<void(base::Status)> done);
  base::Status signal(const base::JobId& id, int signo);
  // Changes the number of ranks of a running job (launcher.proto). `done` runs when the disk has the change.
  void resize(const base::JobId& id, const v1::ResizeRequest& request, Reply<v1::ResizeResponse> done);
  // The number of ranks that the job has now. nullopt: the job has no slots.
  std::optional<int> size_of(const base::JobId& id) const;
  base::Result<ExecControls> exec(const base::JobId& id, const v1::ExecRequest& first, ExecCaller caller);
  base::Status explain_hang(const base::JobId& id, std::function<void(const model::HangReport&)> done);
  base::Status stacks(const base::JobId& id, const StackQuery& query, std::function<void(v1::ProcessStack)> on_process,
                      base::Loop::Task done);
  // Adds what the store does not know about an open job.
  void describe(v1::Job& job) const;
  void describe(google::protobuf::RepeatedPtrField<v1::Job>& jobs) const;
  // Adds when a waiting job is likely to start, if that is known.
  void add_expected_start(v1::Job& job) const;

  const HostTable& hosts() const { return hosts_; }
  JobCounters counters() const;
  void drain(const std::string& host, const std::string& reason, Reply<v1::LauncherHost> reply);
  void resume(const std::string& host, Reply<v1::LauncherHost> reply);
  // Replaces the list of hosts.
  void replace_hosts(const std::vector<model::HostSpec>& list);

  // Both return hosts with the state of their agents: one host, or all of them.
  base::Result<v1::LauncherHost> host_message(const std::string& name) const;
  std::vector<v1::LauncherHost> host_messages() const;
  // Returns what LoadHistory needs at the end of a period.
  LoadSample load_sample() const;
  std::vector<std::string> host_names() const;
  // Returns the hosts of a running job. Empty if it does not run.
  std::vector<std::string> hosts_of(const std::string& job) const;
  // Call it when the pool reports that the agent of this host has changed.
  void agent_changed(const std::string& host);

  // Starts no more jobs, and stops the jobs that cannot outlive launcherd. `done` runs when the last of the stopped
  // jobs has ended.
  void leave(base::Loop::Task done);

  const std::string& jobs_directory() const { return surroundings_.jobs_directory; }

 private:
  struct OpenJob {
    base::JobId id;
    int size = 0;
    std::chrono::seconds retention{};
    std::vector<model::RoleRanks> roles{};
    SizedJob sized{.id = id};              // without what changes while the job runs
    JobNeed need{};                        // only while the job runs
    bool has_deferred_share = false;       // a share was decided after the job's start was stored
    bool is_live = false;                  // its ranks live on while their number changes
    bool has_run = false;                  // the job ran under an earlier launcherd, so its ranks may still run
    bool has_ended = false;                // true while the job's end is being stored
    std::optional<std::string> held_by{};  // who holds the waiting job; nullopt if it may start
    int hold_changes = 0;                  // counts hold() and release(), to find the newest change
    bool is_after_changing = false;        // its dependencies change on the disk, so it must not start
    bool notifies = false;                 // a command runs when it has ended
    std::string group{};                   // for fair use; see JobQueue
    int used_slots = 0;                    // as the queue counts them for its group
    std::optional<base::WallTime> deadline_at{};
    std::optional<std::chrono::milliseconds> limit{};  // of its run
    base::WallTime started_at{};                       // only while the job runs
    bool has_end_signal = false;
    std::unique_ptr<ArrayState> array{};  // only for arrays
    std::optional<ArrayPlace> element{};  // only for elements of arrays
    model::JobState end_state{};          // once it has ended without ranks
    int end_code = 0;
    // Bytes of a StoredEnvironment, for EndedEnvironments. nullopt before the job starts.
    std::optional<std::string> environment{};
    base::Timer deadline{};
    base::Timer start_again{};              // retries a start that could not be stored
    base::Timer share_record{};             // armed while a deferred share must be stored
    std::unique_ptr<RunningJob> running{};  // nullptr until the job starts
  };

  struct StoredStart {
    proto::Submission submission;
    std::string environment;
  };

  void admit(const v1::SubmitRequest& request, const std::string& user, Reply<v1::SubmitResponse> reply);
  void admitted(JobAdmission::Admitted job, std::uint64_t number);
  // Returns the values of an open job that follow from its submission. Without a number it is the newest.
  OpenJob open_job(const base::JobId& id, int size, const proto::Submission& submission,
                   const v1::SubmitRequest& request, const std::string& user, int priority,
                   std::optional<std::uint64_t> number = {});
  void enqueue(OpenJob job, JobNeed need, std::vector<model::JobDependency> after);
  // Keeps a blocked job from starting, and lets it start if nothing blocks it any longer.
  void block_or_release(const OpenJob& job);

  // Defined in job_manager_after.cc:
  // Looks at the jobs for which a job waits that are no longer open.
  void check_awaited(const base::JobId& id);
  // The awaited job has ended. nullopt: it is unknown.
  void awaited_ended(const base::JobId& waiting, const base::JobId& awaited, std::optional<model::JobState> state,
                     const std::string& how);
  void tell_waiting(const base::JobId& ended, model::JobState state, int exit_code);
  void store_update(const base::JobId& id, const v1::UpdateJobRequest& request, const std::string& user,
                    std::optional<std::vector<model::JobDependency>> after, std::optional<std::string> spec,
                    std::function<void(base::Status)> done);
  void updated(const base::JobId& id, const v1::UpdateJobRequest& request,
               const std::optional<std::vector<model::JobDependency>>& after, const base::Status& status);
  base::Status check_terms(const OpenJob& job, const v1::UpdateJobRequest& request,
                           const std::optional<std::vector<model::JobDependency>>& after) const;
  std::string waits_for(const base::JobId& id) const;

  // Defined in job_manager_arrays.cc:
  // Makes an array of the job. `submission` is that of the request.
  static void make_array(OpenJob& job, const proto::Submission& submission, const v1::SubmitRequest& request,
                         const std::string& user);
  void start_element(const JobQueue::Start& start);
  Batch element_record(const OpenJob& element);
  Batch array_step(ArrayState& array, const base::JobId& id, model::JobTrigger trigger,
                   const std::string& reason) const;
  // Adds what the array's events need if the batch ends an element.
  void add_element_end(const base::JobId& id, Batch& batch);
  // Puts as many elements into the queue as may start.
  void offer_elements(OpenJob& array);
  void element_ended(const ArrayPlace& place, model::JobState state, int exit_code);
  void kill_array(const base::JobId& id, StopCause cause, const std::string& reason, bool at_once,
                  std::function<void(base::Status)> done);
  void end_array_if_over(const base::JobId& id);
  static base::Status load_elements(StoreReader& reader, const StoredJob& stored, OpenJob& job);
  static std::string array_reason(const OpenJob& job, const std::string& why);
  // An error if the job has no ranks of its own that run.
  static base::Status check_running(const OpenJob& job);
  base::Status signal_array(const OpenJob& job, int signo);
  static void add_array_variables(const ArrayPlace& place, model::JobSpec& job);

  // Defined in job_manager_notify.cc:
  void notify(const base::JobId& id, model::JobState state, int exit_code);
  void notify_of_page(std::int64_t above);
  void run_command(Notification notification);
  void command_ended(const base::JobId& id, const base::Status& status);

  // Defined in job_manager_trace.cc:
  // An event of a job that is on its way into the store.
  struct TracedEvent {
    base::JobId job;
    std::string message;
  };
  // The parts of a batch that belong to traces. Empty without traces.
  struct TracedBatch {
    std::vector<NewJob> elements{};  // without their specs
    std::vector<TracedEvent> events{};
  };
  void trace_new(const JobAdmission::Admitted& job);
  TracedBatch traced(const Batch& batch) const;
  void trace(const TracedBatch& batch);
  void resume_trace(StoreReader& reader, const StoredJob& stored);

  base::Status load_job(StoreReader& reader, const StoredJob& stored);
  base::Status let_wait(StoreReader& reader, const StoredJob& stored, const v1::StoredSpec& spec);
  // Resumes a job that ran when the last launcherd ended. An error means that the job's ranks cannot be found again.
  base::Status resume_running(StoreReader& reader, const StoredJob& stored, const v1::StoredSpec& spec);
  void give_up(const StoredJob& stored, const v1::StoredSpec& spec, const std::string& why);
  RunningJobOwner owner_of(const base::JobId& id);
  // Returns hosts with slots for the job beside those that it has.
  std::vector<model::HostSpec> offers(const base::JobId& id, Availability when) const;
  // Returns the job's share of a host for further ranks there. nullopt if the host is not known yet. The errors are
  // those of share_of().
  base::Result<std::optional<model::HostShare>> further_share(const base::JobId& id, const std::string& host,
                                                              int ranks) const;
  void reallocate(const base::JobId& id, const Reallocation& change);
  void count_generation(GenerationCause cause);
  void serve_waiting_jobs();
  static SizedJob sized_job(const base::JobId& id, const proto::Submission& submission, int priority,
                            std::uint64_t number);
  void change_sizes();
  std::vector<SizedJob> jobs_of_other_size() const;
  void give_slots_back(const std::vector<SizedJob>& jobs);
  void grow(const std::vector<SizedJob>& jobs);
  void change_size(const base::JobId& id, int size, ResizeReason reason);
  base::Timer deadline_timer(const base::JobId& id, std::optional<base::WallTime> deadline);

  // Call this when the host's agent is up and has reported its cores and GPUs. Decides what jobs may use on that host.
  void learn_from_agent(const std::string& host, const BootstrapTarget& target);
  void learn(const std::string& host, const model::NodeShape& shape, const std::string& identity);
  // Decides the job's shares that are due now (settle_shares() of deferred_share.h).
  base::Status settle(OpenJob& job, const model::Placement& placement, const std::vector<KnownHost>& hosts,
                      Settling settling);
  void record_share_soon(OpenJob& job);
  // `done` runs when the disk holds the shares. If other jobs use what this job needs, `done` runs later.
  void settle_before_launch(const base::JobId& id, const std::vector<KnownHost>& hosts, ShareSettled done);
  void settle_or_wait(const base::JobId& id, const std::vector<KnownHost>& hosts, ShareSettled done);

  void schedule();
  void schedule_soon();
  void start_what_fits();
  void start(const JobQueue::Start& start);
  void record_start(const base::JobId& id);
  void start_not_recorded(const base::JobId& id, const base::Status& why);
  void launch(const base::JobId& id);
  void launched(const base::JobId& id, base::Result<StoredStart> stored);
  void pass_deadline(const base::JobId& id);
  void end_waiting(const base::JobId& id, model::JobState state, int exit_code, const std::string& reason,
                   std::function<void(base::Status)> done);
  // Reads the environment of a job that ends before it starts. `then` runs in any case.
  void keep_environment(const base::JobId& id, base::Loop::Task then);
  void store_hold(const base::JobId& id, model::JobTrigger trigger, const std::optional<std::string>& held_by,
                  std::function<void(base::Status)> done);
  void resubmit(const base::JobId& id, StoredRerun stored, const std::string& user, Reply<v1::SubmitResponse> reply);
  void ended(const base::JobId& id);
  // Counts ends of jobs and ranks for counters().
  void count(const Batch& batch);
  // Stores `batch`, then calls `stored`, which may be empty.
  void record(const base::JobId& id, Batch batch, std::function<void(const base::Status&)> stored);
  void forget_soon(const base::JobId& id, std::chrono::seconds retention);
  void store_host(base::Result<StoredHost> host, Reply<v1::LauncherHost> reply);
  // Returns the jobs that leave a host out now, by the host's name.
  std::map<std::string, std::vector<v1::LeftOut>> left_out() const;
  void ask_for_gpus();
  void ask(const model::HostSpec& host);
  OpenJob* find(const base::JobId& id);
  static base::Status not_open(const base::JobId& id);
  void describe(v1::Job& job, JobQueue::Reasons& reasons) const;

  const JobSurroundings surroundings_;
  base::Loop& loop_;
  JobStore* const store_;
  JobAdmission admission_;
  HostTable hosts_;
  HeldSubmissions held_;
  JobQueue queue_;
  DependencyGraph after_;
  std::map<base::JobId, OpenJob> jobs_;
  Notifier notifier_;
  std::map<base::JobId, base::Timer> looks_again_;  // for check_awaited(), by the waiting job
  EndedEnvironments ended_environments_;
  // A job whose hosts are up, but whose share other jobs still use.
  struct WaitingShare {
    std::string why;
    base::Loop::Task try_again;
  };
  std::map<base::JobId, WaitingShare> waiting_shares_;
  std::set<base::JobId> waiting_for_hosts_;  // running jobs whose next generation lacks hosts
  base::MonotonicTime quiet_since_{};        // when a job last waited or started
  bool was_any_waiting_ = false;             // at the last change_sizes()
  base::Timer sizes_timer_;                  // for change_sizes()
  base::Timer schedule_pause_;               // for schedule_soon()
  std::uint64_t next_number_ = 0;
  JobCounters counters_;
  JobMeter meter_;
  bool is_scheduled_ = false;
  bool is_leaving_ = false;
  base::Loop::Task left_;
  base::Gate gate_;
};

}  // namespace muster::launcherd::daemon
