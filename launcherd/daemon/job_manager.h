// All jobs of a launcherd that have not ended: lets them wait, starts them when there are slots, and writes down what
// becomes of them. What was answered is on the disk.
//
// In three files: job_manager.cc (jobs come, start and end), job_manager_restart.cc (those of the launcherd before),
// job_manager_hosts.cc.
//
// Loop thread only; made and destroyed there. What is called back later is not called after its end.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/loop.h"
#include "base/status.h"
#include "launcherd/daemon/held_submissions.h"
#include "launcherd/daemon/host_table.h"
#include "launcherd/daemon/job_admission.h"
#include "launcherd/daemon/late_share.h"
#include "launcherd/daemon/running_job.h"
#include "launcherd/queue/job_queue.h"
#include "launcherd/service/api_handler.h"
#include "launcherd/store/job_store.h"
#include "proto/job_spec_convert.h"
#include "proto/muster/v1/stored.pb.h"

namespace muster::launcherd::inline daemon {

class JobManager {
 public:
  // Of both when something of the job was stored.
  using OnChange = std::function<void(const base::JobId&)>;
  using OnEnded = std::function<void(const base::JobId&, base::WallTime forget_at)>;

  // `store` is borrowed and outlives it.
  JobManager(JobSurroundings surroundings, JobStore* store, HostTable hosts);
  ~JobManager();

  OnChange on_change;
  OnEnded on_ended;  // what is kept of the job may be forgotten then

  // Once, before the loop runs: the open jobs and the drained hosts of the last launcherd. Then hosts whose list says
  // no slots are asked for their GPUs.
  base::Status load_blocking(StoreReader& reader);

  void submit(const v1::SubmitRequest& request, Reply<v1::SubmitResponse> reply);

  bool is_open(const base::JobId& id) const { return jobs_.contains(id); }
  // Of an open job: answered when the stop has begun, for a waiting one when its end is stored. NOT_FOUND: it is not
  // open.
  void kill(const base::JobId& id, bool at_once, std::function<void(base::Status)> done);
  base::Status signal(const base::JobId& id, int signo);
  base::Status stacks(const base::JobId& id, const std::vector<int>& ranks,
                      std::function<void(v1::ProcessStack)> on_process, base::Loop::Task done);
  // What the store does not know of an open job.
  void describe(v1::Job& job) const;
  void describe(google::protobuf::RepeatedPtrField<v1::Job>& jobs) const;

  const HostTable& hosts() const { return hosts_; }
  const JobCounters& counters() const { return counters_; }
  void drain(const std::string& host, const std::string& reason, Reply<v1::LauncherHost> reply);
  void resume(const std::string& host, Reply<v1::LauncherHost> reply);
  // Another list of hosts.
  void replace_hosts(const std::vector<model::HostSpec>& list);

  // Of one host, or all, with their agents.
  base::Result<v1::LauncherHost> host_message(const std::string& name) const;
  std::vector<v1::LauncherHost> host_messages() const;
  // The pool knows more of the agent of this host than before.
  void agent_changed(const std::string& host);

  // No job starts any more; those that launcherd's end would end are stopped. `done` when none of them runs.
  void leave(base::Loop::Task done);

  const std::string& jobs_directory() const { return surroundings_.jobs_directory; }

 private:
  struct OpenJob {
    base::JobId id;
    int size = 0;
    std::chrono::seconds retention{};
    std::vector<model::RoleRanks> roles{};
    JobNeed need{};               // of one that runs
    bool has_late_share = false;  // decided after its start was stored
    bool has_run = false;         // under an earlier launcherd: its ranks may run
    bool has_ended = false;       // its end is being stored
    base::Timer deadline{};
    base::Timer start_again{};              // its start could not be stored
    std::unique_ptr<RunningJob> running{};  // from its start on
  };

  void admit(const v1::SubmitRequest& request, Reply<v1::SubmitResponse> reply);
  void admitted(JobAdmission::Admitted job, std::uint64_t number);
  void enqueue(OpenJob job, int priority, std::uint64_t number, JobNeed need, std::optional<base::WallTime> deadline);
  base::Status load_job(StoreReader& reader, const StoredJob& stored);
  base::Status let_wait(StoreReader& reader, const StoredJob& stored, const v1::StoredSpec& spec);
  // What was running when the last launcherd ended. The error: it cannot be found again.
  base::Status take_up(StoreReader& reader, const StoredJob& stored, const v1::StoredSpec& spec);
  void give_up(const StoredJob& stored, const v1::StoredSpec& spec, const std::string& why);
  RunningJobOwner owner_of(const base::JobId& id);
  base::Timer deadline_timer(const base::JobId& id, std::optional<base::WallTime> deadline);

  // Its agent is up: what the host has is known, and what its jobs have of it.
  void learn_from_agent(const std::string& host, const BootstrapTarget& target);
  void learn(const std::string& host, const model::NodeShape& shape, const std::string& identity);
  // Its shares, where they are to be decided now (settle_shares() of late_share.h).
  base::Status settle(OpenJob& job, const std::vector<KnownHost>& hosts, Settling settling);
  // `done` when the disk has them; later, when other jobs have what it is to have.
  void settle_before_launch(const base::JobId& id, const std::vector<KnownHost>& hosts, ShareSettled done);
  void settle_or_wait(const base::JobId& id, const std::vector<KnownHost>& hosts, ShareSettled done);

  void schedule();
  void start_what_fits();
  void start(const JobQueue::Start& start);
  void record_start(const base::JobId& id);
  void start_not_recorded(const base::JobId& id, const base::Status& why);
  void launch(const base::JobId& id);
  void launched(const base::JobId& id, const base::Result<proto::Submission>& submission);
  void pass_deadline(const base::JobId& id);
  void end_waiting(const base::JobId& id, model::JobState state, int exit_code, const std::string& reason,
                   std::function<void(base::Status)> done);
  void ended(const base::JobId& id);
  // `stored` may be empty.
  void count(const Batch& batch);
  void record(const base::JobId& id, Batch batch, std::function<void(const base::Status&)> stored);
  void forget_soon(const base::JobId& id, std::chrono::seconds retention);
  void store_host(base::Result<StoredHost> host, Reply<v1::LauncherHost> reply);
  void ask_for_gpus();
  void ask(const model::HostSpec& host);
  OpenJob* find(const base::JobId& id);
  void describe(v1::Job& job, JobQueue::Reasons& reasons) const;
  // A closure for later: not called when the manager has gone.
  template <typename Function>
  auto while_alive(Function function) {
    return [is_alive = std::weak_ptr<bool>(is_alive_), function](auto&&... arguments) {
      if (!is_alive.expired()) function(std::forward<decltype(arguments)>(arguments)...);
    };
  }

  const JobSurroundings surroundings_;
  base::Loop& loop_;
  JobStore* const store_;
  JobAdmission admission_;
  HostTable hosts_;
  HeldSubmissions held_;
  JobQueue queue_;
  std::map<base::JobId, OpenJob> jobs_;
  // Jobs that are up, and have to wait for others there.
  struct WaitingShare {
    std::string why;
    base::Loop::Task try_again;
  };
  std::map<base::JobId, WaitingShare> waiting_shares_;
  std::uint64_t next_number_ = 0;
  JobCounters counters_;
  bool is_scheduled_ = false;
  bool is_leaving_ = false;
  base::Loop::Task left_;
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::launcherd::daemon
