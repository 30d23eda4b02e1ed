// Runs one job from the first ssh connection to the last process gone. The heart of the launcher, the same for hvdrun
// and launcherd.
//
// Loop thread only. The observer's calls come from within the runner's own; it must not destroy the runner there, but
// post. After on_finished nothing more happens. Destroying a runner that has not finished drops the hosts: their agents
// see the end of their launcher and kill what they started.
//
//   starting ──all hosts up──▶ launching ──every rank spawned──▶ running ──▶ ending ──▶ finished
//      │ a host failed, Ctrl-C     │ a rank failed, a signal, --timeout, a host lost    ▲
//      └───────────────────────────┴──────────────────────▶ stopping ──────────────────┘
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
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/output/output_sink.h"
#include "launcherd/run/input_feed.h"
#include "model/exit_report.h"
#include "model/job_event.h"
#include "model/job_spec.h"
#include "model/node_shape.h"

namespace muster::v1 {
class ProcessStack;
}

namespace muster::launcherd::inline agents {
class JobAgents;
}  // namespace muster::launcherd::agents

namespace muster::launcherd::inline run {

// Why a job was stopped from outside; decides the exit code.
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
  kRefused  // no rank was started: the hosts have not what the job's options ask for. Last: launcherd stores numbers
};

// A host of a job that is up.
struct KnownHost {
  std::string name;
  model::NodeShape shape;
  bool was_told = false;   // its ranks: they have of it what they have, and nothing is decided any more
  std::string identity{};  // host_identity() of launch_plan.h
  std::string kept_as{};   // the name of the same host whose agent gets the ranks of both; empty: its own
};
// The shares of PlacedHost as they are now decided, by name. The error: the job cannot be started on these hosts.
using ShareAnswer = std::function<void(const base::Result<model::Placement>&)>;

struct LaunchOptions {
  std::string job_id;
  std::string agent_link = "auto";  // auto | ssh | dial
  std::string contain = "auto";     // auto | cgroup | pidns | subreaper
  std::string build_id{};           // agents must be of the same build; empty: of any
  bool verbose = false;
  int attempt = 0;  // how often the job was started before
  // An earlier launcherd had begun this attempt: agents that hold ranks of it come back, and what had been asked of it
  // then goes on.
  bool resumes = false;
  StopCause resumed_stop = StopCause::kNone;
  bool resumed_at_once = false;  // that stop, twice
  // By index of the placement's hosts: the first entry that is the same host, whose agent was told the ranks of both,
  // so that no agent comes back for the others. Empty: no two are known to be the same host.
  std::vector<int> resumed_first_of{};
  // A third stop ends the job while its agents still end the ranks. Not where others get the hosts then.
  bool may_leave = true;
  bool may_spawn = false;      // ranks may have more ranks started (MPI_Comm_spawn)
  std::string never_staged{};  // a folder on this machine that no host may get; empty: none
  // Asked once all hosts of an attempt are up, before ranks are told what they may use; answers at once, or later: what
  // the job needs may have to become free. Not after the runner's end. Empty: the hosts are all the job's.
  std::function<void(const std::vector<KnownHost>&, ShareAnswer)> shares{};
  std::optional<base::WallTime> ends_at{};  // when whoever has lent us the hosts takes them back; nullopt: not known
};

struct HostFailure {
  std::string host;
  std::string message;  // one sentence with the next step
};

struct JobOutcome {
  int exit_code = 0;
  StopCause cause = StopCause::kNone;
  std::vector<model::RankEnd> ends;  // by rank; empty when nothing was started
  int root = -1;                     // index into ends
  std::string stderr_tail;           // of the root cause
  std::vector<HostFailure> host_failures;
  std::string output_failure;  // the sentence, when output could not be written
  int strays_killed = 0;
  std::vector<std::string> stray_lines;  // "n2: pid 4242 (sleep): left its session", at most 20
  std::vector<HostFailure> unclean;      // hosts where it is not known, or known not to be, that nothing is left
  int ranks = 0;
  int hosts = 0;
  int restarts = 0;
  base::Duration elapsed{};  // from start() to the end
};

class JobObserver {
 public:
  virtual ~JobObserver() = default;
  virtual void on_progress(int up, int total, const std::vector<std::string>& waiting) = 0;  // hosts
  virtual void on_running() = 0;                                                             // every rank was spawned
  virtual void on_note(const std::string& line) = 0;                                         // for --verbose
  virtual void on_warning(const std::string& line) = 0;                                      // always shown
  // What has been done before the start, for who is not in a hurry.
  virtual void on_remark(const std::string& line) { static_cast<void>(line); }
  // The file that a rank wrote for torch before it failed; only of a job with a JobSpec::log_dir.
  virtual void on_error_file(int rank, const std::string& content) {
    static_cast<void>(rank), static_cast<void>(content);
  }
  virtual void on_root_cause(const model::RankEnd& root) = 0;  // as soon as it is known, before the job has ended
  virtual void on_finished(const JobOutcome& outcome) = 0;
  // What each rank, by number, may use of its host; before ranks are started, at every attempt.
  virtual void on_bound(const std::vector<model::BoundRank>& ranks) { static_cast<void>(ranks); }
  // The same as values, for records: hosts and ranks that come up and end, suspicions, the stop. JobStarting and
  // JobEnded are left to the owner of the runner.
  virtual void on_event(const model::JobEvent& event) { static_cast<void>(event); }
};

class JobRunner {
 public:
  // `sink` and `observer` are borrowed and outlive the runner.
  JobRunner(base::Loop& loop, const base::Clock& clock, model::JobSpec job, model::Placement placement,
            LaunchOptions options, base::Environment environment, std::shared_ptr<JobAgents> agents, OutputSink* sink,
            JobObserver* observer);
  ~JobRunner();

  // Who reads stdin for the ranks that JobSpec::input names, which is not kAuto any more. Borrowed; before start().
  void set_input(InputSource* source);
  // Of the launcher's terminal, for the rank that has one; before start(), and again when it changes.
  void resize_terminal(int rows, int columns);

  // Fails only when the launcher itself cannot work (no port, no key).
  base::Status start();

  // SIGTERM to all ranks, SIGKILL after the grace time; a second call kills at once, a third one waits for nobody
  // (LaunchOptions::may_leave).
  void stop(StopCause cause);
  // `is_once`: ranks get no second signal that is sent so, also not from the launcher that comes after this one.
  void signal_ranks(int signo, bool is_once = false);
  // Ranks stopped and leases held (Ctrl-Z), or both continued; `done` when every reachable agent has done so.
  void suspend(bool on, base::Loop::Task done);
  // Where ranks are (`ranks` empty: all): a message a process, then `done`. Not after the runner's end.
  // INVALID_ARGUMENT: no such rank. FAILED_PRECONDITION: none runs.
  base::Status stacks(const std::vector<int>& ranks, std::function<void(v1::ProcessStack)> on_process,
                      base::Loop::Task done);

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace muster::launcherd::run
