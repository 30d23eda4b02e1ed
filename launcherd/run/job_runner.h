// Runs one job, from the first ssh connection until the last process is gone. hvdrun and launcherd both use it.
//
// Owner: hvdrun or launcherd, mostly through RestartingJob (restarting_job.h).
// Thread: loop thread only. The runner calls the observer from within its own calls. The observer must not destroy the
// runner in such a call, but post the destruction. After on_finished the runner makes no more calls.
// Destruction: a runner that has not finished drops its hosts. Their agents see the end of their launcher and kill what
// they started.
//
// States: job_phase.h has the table of a job's phases, host_phase.h that of its hosts. docs/design.md draws both.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/env.h"
#include "base/loop.h"
#include "base/status.h"
#include "launcherd/agents/relays_among.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/output/output_sink.h"
#include "launcherd/run/exec_request.h"
#include "launcherd/run/input_feed.h"
#include "launcherd/run/stack_query.h"
#include "model/exit_report.h"
#include "model/job_event.h"
#include "model/job_spec.h"
#include "model/node_shape.h"
#include "model/trace_context.h"
#include "proto/muster/v1/job.pb.h"

namespace muster::v1 {
class ArrivalTimes;
class HostLoad;
class ProcessStack;
}  // namespace muster::v1

namespace muster::launcherd::inline agents {
class JobAgents;
}  // namespace muster::launcherd::agents

namespace muster::launcherd::inline run {

class GenerationHosts;
struct GenerationEnd;
struct NextGeneration;
struct ResumedGeneration;

// Why a job was stopped. The cause decides the exit code. launcherd stores the numbers, so append new causes at the
// end.
enum class StopCause {
  kNone,
  kPolicy,
  kHangup,
  kInterrupt,
  kTerminate,
  kTimeout,
  kStdoutClosed,
  kHostFailed,
  kOutputFailed,
  kRefused,  // No rank was started, because the hosts lack what the job's options ask for.
  kResize,   // RestartingJob ends the generation, because the job gets another number of ranks.
  kHung      // The job made no progress, and HangPolicy::on_hang is kKill.
};

// One host of the job that is up.
struct KnownHost {
  std::string name;
  model::NodeShape shape;
  bool has_launched = false;  // true if its agent already has its ranks; their cores and GPUs are final
  std::string identity{};     // host_identity() of launch_plan.h
  // Name of the other entry for this host, whose agent gets the ranks of both entries. Empty if this entry keeps its
  // ranks.
  std::string kept_as{};
};
// Receives the placement with all shares that are decided now (PlacedHost::share). Look up its hosts by name. An error
// means that the job cannot start on these hosts.
using ShareAnswer = std::function<void(const base::Result<model::Placement>&)>;

struct LaunchOptions {
  std::string job_id;
  std::string agent_link = "auto";  // auto | ssh | dial
  int fanout = kDefaultFanout;      // with more hosts, some agents are relays for others; 0: never
  std::string contain = "auto";     // auto | cgroup | pidns | subreaper
  std::string build_id{};           // Agents must be of this build. Empty means that any build is accepted.
  bool verbose = false;
  int attempt = 0;   // number of starts before this one
  int restarts = 0;  // how many of them count against JobSpec::max_restarts
  // True if an earlier attempt has staged the job's files on these hosts.
  bool is_staged = false;
  // true if an earlier launcherd began this attempt. Agents that hold its ranks then come back, and a stop that was
  // requested (resumed_stop) continues.
  bool resumes = false;
  StopCause resumed_stop = StopCause::kNone;
  bool resumed_at_once = false;  // true if that stop was requested twice
  // For each host of the placement, the index of the first entry that is the same host. Only the agent of that first
  // entry comes back, because an earlier launcherd sent it the ranks of both. Empty means that no two entries are known
  // to be the same host.
  std::vector<int> resumed_first_of{};
  // true if a third stop() may end the job while its agents still end the ranks. Set false if other jobs get the
  // hosts afterwards.
  bool may_leave = true;
  bool may_spawn = false;      // ranks may start more ranks (MPI_Comm_spawn)
  bool wants_load = false;     // agents that are the job's own report how busy their hosts are
  std::string never_staged{};  // A folder on this machine that must never be staged to a host. Empty means none.
  // Only with JobSpec::min_hosts, at the first attempt. Returns the placement without the hosts that are not up
  // (GenerationEnd::bad_hosts). `reserve` are hosts without ranks that may take the place of others. Empty means that
  // all hosts must be up.
  std::function<base::Result<NextGeneration>(const GenerationEnd&)> start_without{};
  std::vector<model::HostSpec> reserve{};
  // Decides what the job may use of its hosts. The runner calls it once all hosts of an attempt are up, before ranks
  // are bound. It may answer later, because other jobs may have to release what this job needs. It must not answer
  // after the runner's end. Empty means that the job may use its hosts completely.
  std::function<void(const std::vector<KnownHost>&, ShareAnswer)> shares{};
  // Returns what a job whose ranks change may use of a host now, by the host's name. An error means that the host
  // cannot get processes yet. Empty means that the job may use its hosts completely.
  std::function<base::Result<model::HostShare>(const std::string& host)> live_share{};
  // The time by which the job must have left the hosts: the end of the scheduler's job, or the job's deadline. nullopt
  // if there is no such time, or if it is unknown.
  std::optional<base::WallTime> ends_at{};
  // The span of the job, for the spans of its ranks. nullopt if the job has no trace.
  std::optional<model::TraceContext> trace{};
};

struct HostFailure {
  std::string host;
  std::string message;           // one sentence with the next step
  bool is_cut_short = false;     // the host is not at fault: the failure of another host ended its start
  bool keeps_processes = false;  // processes of the job run there that cannot be killed, or may run
};

struct JobOutcome {
  int exit_code = 0;
  StopCause cause = StopCause::kNone;
  std::vector<model::RankEnd> ends;  // by rank; empty if no rank was started
  int root = -1;                     // index into ends; -1 if no rank failed by itself
  std::string stderr_tail;           // end of stderr of the root cause's rank
  std::vector<int> alike_ranks;      // failed with the same Python exception as the root cause, without it
  std::vector<HostFailure> host_failures;
  std::string output_failure;  // one sentence if output could not be written; otherwise empty
  int strays_killed = 0;
  std::vector<std::string> stray_lines;  // "n2: pid 4242 (sleep): left its session", at most 20
  std::vector<HostFailure> unclean;      // Hosts where processes of the job are left, or may be.
  int ranks = 0;
  int hosts = 0;
  int restarts = 0;
  base::Duration elapsed{};  // time from start() to the end
};

// One host of a job whose ranks change (JobSpec::live).
struct LiveHost {
  std::string name;
  int processes = 0;         // that run, or will start
  bool has_agent = false;    // the job has an agent there, or searches the host for processes that a lost agent left
  bool is_excluded = false;  // a process or the host has failed, so no process starts there now
  std::optional<base::MonotonicTime> usable_from{};  // of an excluded host; nullopt means never
  // The job uses only so many slots of the host, because a process on the next one has failed. nullopt means all slots.
  std::optional<int> limit{};

  bool operator==(const LiveHost&) const = default;
};

struct LiveHosts {
  std::vector<LiveHost> hosts;  // all that the job has had, each once
  int lacks = 0;                // slots without which the job cannot go on; 0 if it does not wait for slots

  bool operator==(const LiveHosts&) const = default;
};

class JobObserver {
 public:
  virtual ~JobObserver() = default;
  // Reports how many of all hosts are up, and the names of the hosts that are not.
  virtual void on_progress(int up, int total, const std::vector<std::string>& waiting) = 0;
  // Called when every agent has tried to start all its ranks.
  virtual void on_running() = 0;
  virtual void on_note(const std::string& line) = 0;     // for --verbose
  virtual void on_warning(const std::string& line) = 0;  // always shown
  // Reports a step before the start, for example staged files or late hosts. An observer may ignore it.
  virtual void on_remark(const std::string& line) { static_cast<void>(line); }
  // Reports the error file that a rank wrote for torch before it failed. Called only for jobs with a JobSpec::log_dir.
  virtual void on_error_file(int rank, const std::string& content) {
    static_cast<void>(rank), static_cast<void>(content);
  }
  virtual void on_root_cause(const model::RankEnd& root) = 0;  // as soon as it is known, before the job has ended
  virtual void on_finished(const JobOutcome& outcome) = 0;
  // Reports that an agent has seen progress of the job (FailurePolicy::progress_file).
  virtual void on_progress_file() {}
  // Reports that the ranks of a later generation have ended their first collective. A job whose ranks change sends
  // FirstCollectiveEnded instead.
  virtual void on_first_collective(int generation) { static_cast<void>(generation); }
  // Reports that the job goes on after a HangReported, and how long it made no progress.
  virtual void on_hang_over(std::chrono::milliseconds silent) { static_cast<void>(silent); }
  // Reports the ranks that were late most often in this generation, the latest first (lateness.h). Called again when
  // the numbers have changed.
  virtual void on_late(const std::vector<v1::RankLateness>& latest) { static_cast<void>(latest); }
  // Reports how busy a host is, as its agent has sent it (LaunchOptions::wants_load). Nobody has checked the numbers.
  virtual void on_host_load(const std::string& host, const v1::HostLoad& load) {
    static_cast<void>(host), static_cast<void>(load);
  }
  // Reports that the job has done `more` further steps (step_count.h). Only ranks that use libmuster report steps.
  virtual void on_steps(std::uint64_t more) { static_cast<void>(more); }
  // Reports what each rank may use of its host, by rank. The runner calls it at every attempt, before ranks are
  // started.
  virtual void on_bound(const std::vector<model::BoundRank>& ranks) { static_cast<void>(ranks); }
  // Reports the hosts of a job whose ranks change, after each change of the report. Do not call the runner's functions
  // from this call.
  virtual void on_live_hosts(const LiveHosts& hosts) { static_cast<void>(hosts); }
  // Reports the same facts as values, for records: hosts and ranks that start and end, suspicions, the stop. The owner
  // of the runner creates JobStarting and JobEnded itself.
  virtual void on_event(const model::JobEvent& event) { static_cast<void>(event); }
};

// The job of a runner, and the receivers of its reports. `sink` and `observer` are borrowed and outlive the runner.
struct JobSetup {
  model::JobSpec job;
  model::Placement placement;
  LaunchOptions options;
  base::Environment environment;
  OutputSink* sink = nullptr;
  JobObserver* observer = nullptr;
  // Returns whether the ranks have made progress since the last call. Empty means that it is not known.
  std::function<bool()> take_progress{};
  // Borrowed. nullptr if the hosts of all generations are the job's own (FailurePolicy::spares).
  GenerationHosts* hosts = nullptr;
  // The stored state of the job's generations if an earlier launcherd ran it; otherwise nullptr.
  std::shared_ptr<const ResumedGeneration> resumed_generation{};
};

class JobRunner {
 public:
  JobRunner(base::Loop& loop, const base::Clock& clock, JobSetup setup, std::shared_ptr<JobAgents> agents);
  ~JobRunner();

  // Sets the reader of the launcher's stdin, for the ranks that JobSpec::input names. Call it before start(). `source`
  // is borrowed. JobSpec::input must no longer be kAuto.
  void set_input(InputSource* source);
  // Sets the size of the launcher's terminal, for the rank that has one. Call it before start() and after every change.
  void resize_terminal(int rows, int columns);

  // Fails only if the launcher itself cannot work, for example without a free port or a key.
  base::Status start();

  // Stops the job: SIGTERM to all ranks, SIGKILL after the grace time. A second call kills at once. A third call
  // finishes without waiting for the agents, if LaunchOptions::may_leave.
  void stop(StopCause cause);
  // Sends a signal to all ranks. With `is_once` each rank gets at most one such signal, even if a later launcherd sends
  // it again.
  void signal_ranks(int signo, bool is_once = false);
  // With `on`, stops the ranks and holds the leases (Ctrl-Z). Without `on`, continues the ranks and the leases. The
  // runner calls `done` when every reachable agent has answered, or after 1 s.
  void suspend(bool on, base::Loop::Task done);
  // Asks where these ranks are in their programs. Empty `ranks` means all ranks. `on_process` gets one message a
  // process, then `done` follows. Neither is called after the runner's end.
  // INVALID_ARGUMENT: the job has no such rank. FAILED_PRECONDITION: none of these ranks runs.
  base::Status stacks(const StackQuery& query, std::function<void(v1::ProcessStack)> on_process, base::Loop::Task done);
  // Runs a command beside a rank. `first` has passed check_first_request().
  // INVALID_ARGUMENT: the job has no such rank. FAILED_PRECONDITION: the rank does not run.
  base::Result<ExecControls> exec(const v1::ExecRequest& first, ExecCaller caller);
  // Asks several times what the ranks do, and calls `done` with a report that names those that hold the job up. It is
  // called within some seconds, at the latest at the job's end, but not after the runner's end.
  // FAILED_PRECONDITION: no rank runs.
  base::Status explain_hang(std::function<void(const model::HangReport&)> done);
  // Replaces the list of hosts that a job whose ranks change may use (JobSpec::live), in order. A host without slots
  // has one. New hosts get agents when ranks are placed on them. Before the ranks run, the list is kept until they do.
  // Without ElasticSpec::max_ranks the job may use all slots of the new list.
  // FAILED_PRECONDITION: the ranks of the job are fixed, or the job is ending.
  base::Status set_live_hosts(std::vector<model::HostSpec> hosts);
  // Changes ElasticSpec::min_ranks and max_ranks of such a job. The errors are those of set_live_hosts().
  base::Status set_live_size(int min_ranks, std::optional<int> max_ranks);

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace muster::launcherd::run
