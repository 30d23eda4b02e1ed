// The inside of JobRunner: its state and all its steps. Private to this folder.
//
// job_start.cc: hosts come up and ranks are spawned.
// job_events.cc: messages of agents while the job runs, and liveness.
// job_spawn.cc: ranks that ranks spawn.
// job_end.cc: stopping, losing hosts, finishing.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcherd/agents/job_agents.h"
#include "launcherd/agents/ping_turns.h"
#include "launcherd/plan/launch_plan.h"
#include "launcherd/plan/spawn_plan.h"
#include "launcherd/run/end_collector.h"
#include "launcherd/run/end_news.h"
#include "launcherd/run/host_phase.h"
#include "launcherd/run/input_feed.h"
#include "launcherd/run/job_phase.h"
#include "launcherd/run/job_runner.h"
#include "launcherd/run/owner_questions.h"
#include "launcherd/run/phase_timers.h"
#include "launcherd/run/stack_questions.h"
#include "launcherd/stage/staging.h"

namespace muster::launcherd::inline run {

inline constexpr std::chrono::milliseconds kPingPeriod{500};
inline constexpr std::chrono::milliseconds kSuspectAfter{1'000};
// If a host is silent for half its lease or for this long, probe it over the bootstrap. Its agent may have been
// stopped.
inline constexpr std::chrono::milliseconds kLookAtSilent{10'000};
// Probe earlier while ranks are being stopped, so that the probe comes before stop_overdue().
inline constexpr std::chrono::milliseconds kLookAtStopped{2'000};
// If the lease is shorter than this, do not probe: there is no time for a log-in.
inline constexpr std::chrono::milliseconds kShortestLookedAt{4'000};
// After the first host fails to start, wait this long for the other hosts, so that all failures are reported together.
inline constexpr std::chrono::milliseconds kGatherFailures{3'000};
// Agents that have dialled lose their connection while this process is stopped (Ctrl-Z). They get this long to dial
// again.
inline constexpr std::chrono::milliseconds kRedialTime{3'000};
// When only services are left (model::Role::is_service), they get this long to end by themselves.
inline constexpr std::chrono::milliseconds kServiceTime{5'000};
// Time for agents beyond the grace time, to kill, audit and report.
inline constexpr std::chrono::milliseconds kStopMargin{6'000};
// Additional time if agents wait until GPUs release the memory of the ranks.
inline constexpr std::chrono::milliseconds kGpuMargin{10'000};
// If the user interrupted the job, output in flight gets this long after the processes are gone. It may never end,
// because nobody may read the console.
inline constexpr std::chrono::milliseconds kOutputAfterInterrupt{2'000};

struct JobHost {
  int agent = 0;     // index in hosts_; never changes
  int placed = 0;    // index in placement_.hosts; -1 if kUnused
  std::string name;  // for messages
  HostState phase;
  HostFacts facts;
  std::string agent_link;  // "dial" or "ssh"
  // Only for jobs resumed after a launcherd restart: messages that the runner has not processed yet (job_agents.h).
  std::vector<v1::AgentMessage> history;
  bool was_told = false;         // true if that earlier launcherd sent it its ranks
  std::vector<int> ranks;        // the ranks that the agent was sent
  int started = 0;               // ranks that have started there
  bool launched = false;         // the agent has tried every spawn
  bool output_complete = false;  // all output was read; it may be before the ranks are gone
  bool suspect = false;
  bool is_looked_at = false;        // a probe over the bootstrap is under way, because the host is silent
  base::MonotonicTime looked_at{};  // start of the last probe
  bool has_stream = false;
  int suspends_due = 0;  // answers to Suspend that are missing; one may arrive after the next Suspend was sent
  base::MonotonicTime last_heard{};
  std::deque<std::int64_t> pings{};  // launcher_ns of the last pings; a Pong must answer one of them
  bool has_misreported = false;      // it reported on ranks that it does not have; warned once
  base::Duration best_round_trip = base::Duration::max();
  std::int64_t clock_offset_ns = 0;  // agent's monotonic clock minus ours
};

class JobRunner::Core final : private AgentListener {
 public:
  Core(base::Loop& loop, const base::Clock& clock, model::JobSpec job, model::Placement placement,
       LaunchOptions options, base::Environment environment, std::shared_ptr<JobAgents> agents, OutputSink* sink,
       JobObserver* observer);

  base::Status start();
  void stop(StopCause cause);
  void signal_ranks(int signo, bool is_once);
  void suspend(bool on, base::Loop::Task done);
  void set_input(InputSource* source) { input_ = source; }
  void resize_terminal(int rows, int columns);
  base::Status stacks(const std::vector<int>& ranks, StackQuestions::OnProcess on_process, base::Loop::Task done);

 private:
  RunAction advance(RunEvent event);
  void proceed(RunEvent event);

  // job_start.cc
  void agent_started(int agent) override;
  void agent_up(int agent, AgentUp up) override;
  void agent_failed(int agent, const std::string& message) override;
  void host_start_failed(JobHost& host, const std::string& message);
  void start_timed_out();
  std::string why_not_in_time(const JobHost& host) const;
  void maybe_prepare();
  base::Status merge_same_hosts();
  base::Status place_merged(const model::JobSpec& job);
  bool check_networks();
  std::string session_secret() const;
  void prepare_hosts();
  void prepared(JobHost& host, const v1::Prepared& answer);
  void stage();
  void staged(const base::Status& status);
  void ask_shares();
  void take_shares(const model::Placement& decided);
  void launch();
  base::Result<LaunchPlan> plan(const std::vector<JobHost*>& by_placed) const;
  void tell_hosts(LaunchPlan plan, const std::vector<JobHost*>& by_placed);
  void take_ranks(JobHost& host);
  void take_up(JobHost& host);
  void watch_launch();
  void launch_timed_out();
  void send_window();
  void send_input(const std::vector<int>& ranks, std::string_view bytes, bool ends);
  void report_progress();
  void tell_progress() const;

  // job_events.cc
  void agent_said(int agent, const v1::AgentMessage& message) override;
  void agent_stream(int agent, bool is_there) override;
  void note(const std::string& line) override;
  void warn(const std::string& line) override;
  void said(JobHost& host, const v1::AgentMessage& message);
  std::vector<int> owners_of(const std::string& address) const;
  void pong(JobHost& host, const v1::Pong& pong);
  void rank_exited(JobHost& host, const v1::RankExited& exited);
  void rank_start_failed(JobHost& host, const v1::RankStartFailed& failed);
  void host_empty(JobHost& host, const v1::HostEmpty& empty);
  // Drops the line if there are kMaxStrayLines already.
  void add_stray_line(std::string line);
  void add_end(model::RankEnd end);
  void watch_services(const model::RankEnd& end);
  void tell_peers(const model::RankEnd& end);
  void flush_peers();
  void set_suspect(JobHost& host, bool is_suspect);
  void maybe_name_root_cause();
  void output_lost(JobHost& host, const std::string& why);
  void tick();
  void send_ping(JobHost& host);
  bool may_report(JobHost& host, const v1::AgentMessage& message);
  void check_liveness(base::MonotonicTime now);
  void look_at(JobHost& host, base::MonotonicTime now);
  void looked(JobHost& host, const base::Result<CommandResult>& result);
  base::MonotonicTime corrected(const JobHost& host, std::int64_t agent_ns) const;

  // job_spawn.cc
  struct SpawnedWorld {
    enum class Phase { kStarting, kRunning, kFailed };
    int agent = 0;  // the agent of the rank that spawned it
    std::uint64_t request = 0;
    std::string name{};
    int first = 0;  // the number of its rank 0
    int size = 0;
    Phase phase = Phase::kStarting;
    std::set<int> unstarted{};           // ranks of it that have not started
    std::set<int> unanswered{};          // agents that have not sent WorldAdded
    std::vector<model::RankEnd> ends{};  // ends that arrived while it was starting
  };
  void spawn_requested(JobHost& host, const v1::SpawnRequest& request);
  base::Status spawn(JobHost& host, const v1::SpawnRequest& request);
  std::vector<SpawnHost> spawn_hosts() const;
  void begin_world(SpawnedWorld world, std::vector<v1::AddWorld> messages);
  SpawnedWorld* world_of(int rank);  // nullptr if the job was started with that rank
  bool may_run(int rank) const;
  void world_added(JobHost& host, const v1::WorldAdded& added);
  void spawned_started(int rank);
  bool keep_spawned_end(const model::RankEnd& end);
  void world_failed(SpawnedWorld& world, const std::string& why);
  void settle_world(SpawnedWorld& world);
  void host_left_worlds(const JobHost& host);

  // job_end.cc
  bool may_have_ranks() const;
  void stop_when_taken_up(StopCause cause);
  void begin_stop(StopCause cause, std::chrono::milliseconds grace, const std::string& reason);
  bool end_start();
  void give_up_start(JobHost& host);
  void send_stop(std::chrono::milliseconds grace, const std::string& reason, bool is_asked_for);
  std::chrono::milliseconds stop_margin() const;
  void stop_overdue();
  void handle(JobHost& host, HostEvent event, const std::string& why);
  void agent_gone(int agent, const base::Status& status) override;
  void agent_unreadable(int agent) override;
  void host_lost(JobHost& host, HostAction how, const std::string& why);
  void sweep(JobHost& host);
  void swept(int agent, const base::Result<CommandResult>& result);
  void output_complete(int agent) override;
  void output_cut(int agent) override;
  void output_failed(const base::Status& status) override;
  void maybe_finish();
  void finish(RunEvent event);
  JobOutcome make_outcome();

  bool is_finished() const { return phase_ == JobPhase::kFinished; }
  bool is_output_skipped() const;
  JobHost& host_at(int agent) { return hosts_[static_cast<std::size_t>(agent)]; }
  // Returns whether all hosts have taken a step that no host takes back. `first_without` keeps the first host without
  // it between calls. The runner asks after every message of a host, so a full scan would cost the square of their
  // number.
  template <typename Predicate>
  bool have_all(std::size_t& first_without, Predicate has) const {
    while (first_without < hosts_.size() && has(hosts_[first_without])) ++first_without;
    return first_without == hosts_.size();
  }
  friend class JobRunner;

  base::Loop& loop_;
  const base::Clock& clock_;
  const model::JobSpec job_;
  model::Placement placement_;
  const LaunchOptions options_;
  // Only for jobs resumed after a launcherd restart: a stop that was requested before all hosts were back.
  StopCause early_stop_ = options_.resumed_stop;
  bool early_stop_at_once_ = options_.resumed_at_once;
  const base::Environment environment_;
  OutputSink* const sink_;
  JobObserver* const observer_;

  std::vector<JobHost> hosts_;
  // For each agent, the first agent on the same host. Empty if not known yet.
  std::vector<int> first_of_ = options_.resumes ? options_.resumed_first_of : std::vector<int>();
  // For have_all(): the first host that is not up, prepared, launched, and without processes.
  std::size_t first_not_up_ = 0;
  std::size_t first_not_prepared_ = 0;
  std::size_t first_not_launched_ = 0;
  std::size_t first_not_gone_ = 0;
  std::string master_address_;
  std::deque<SpawnedWorld> worlds_;
  int next_number_ = placement_.size;  // number of the next spawned rank
  EndCollector ends_;
  EndNews end_news_{[this](int agent, v1::LauncherMessage message) { agents_->send(agent, std::move(message)); }};
  OwnerQuestions owner_questions_{
      [this](int agent, v1::LauncherMessage message) { agents_->send(agent, std::move(message)); }};
  InputSource* input_ = nullptr;
  std::unique_ptr<InputFeed> feed_;  // set by launch(); nullptr if no rank reads input
  v1::WindowSize window_;
  StackQuestions stack_questions_{
      loop_, [this](int agent, v1::LauncherMessage message) { agents_->send(agent, std::move(message)); }};
  std::map<int, std::string> stderr_tails_;
  std::vector<HostFailure> host_failures_;
  std::vector<HostFailure> unclean_;
  std::vector<std::string> stray_lines_;
  int strays_killed_ = 0;
  std::string output_failure_;
  base::MonotonicTime started_at_{};
  base::MonotonicTime last_tick_{};
  base::MonotonicTime runs_since_{};  // since when this process has run without a stall
  PingTurns ping_turns_;
  JobPhase phase_ = JobPhase::kConnecting;  // only advance() changes it
  PhaseTimers timers_{loop_, phase_};
  bool root_told_ = false;
  bool suspended_ = false;
  StopCause cause_ = StopCause::kNone;
  base::Loop::Task suspend_done_;

  std::shared_ptr<char> is_asking_;   // liveness token: answers that arrive after reset() are ignored
  std::unique_ptr<Staging> staging_;  // exists only in kStaging
  base::MonotonicTime start_deadline_{};
  std::chrono::milliseconds stop_time_{};  // the duration of JobTimer::kStop
  // Last member: the agents are destroyed before anything that they call back into.
  const std::shared_ptr<JobAgents> agents_;
};

}  // namespace muster::launcherd::run
