// The inside of JobRunner: its state and all its steps. Private to this folder.
//
// host_phase.h and job_phase.h say what each event leads to. Core performs the actions:
// job_start.cc: hosts come up and ranks are spawned.
// job_late.cc: hosts that are late, and starts without them.
// job_events.cc: messages of agents while the job runs.
// job_spawn.cc: requests to spawn more ranks.
// job_live.cc: ranks that change while the job runs.
// job_joins.cc: processes and hosts that join such a job.
// job_hang.cc: why a job makes no progress.
// job_end.cc: stopping, losing hosts, finishing.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/gate.h"
#include "launcherd/agents/job_agents.h"
#include "launcherd/output/activity_sink.h"
#include "launcherd/plan/launch_plan.h"
#include "launcherd/plan/spawn_plan.h"
#include "launcherd/run/end_collector.h"
#include "launcherd/run/evidence_requests.h"
#include "launcherd/run/exec_calls.h"
#include "launcherd/run/generation_planner.h"
#include "launcherd/run/hang_watch.h"
#include "launcherd/run/host_roster.h"
#include "launcherd/run/host_warnings.h"
#include "launcherd/run/input_feed.h"
#include "launcherd/run/job_phase.h"
#include "launcherd/run/job_runner.h"
#include "launcherd/run/lateness.h"
#include "launcherd/run/live_job.h"
#include "launcherd/run/live_output.h"
#include "launcherd/run/liveness.h"
#include "launcherd/run/peer_credential_queries.h"
#include "launcherd/run/peer_failures.h"
#include "launcherd/run/phase_timers.h"
#include "launcherd/run/spawned_worlds.h"
#include "launcherd/run/stack_requests.h"
#include "launcherd/run/step_count.h"
#include "launcherd/run/stop_plan.h"
#include "launcherd/run/suspension.h"
#include "launcherd/run/world_audit.h"
#include "launcherd/stage/job_staging.h"

namespace muster::launcherd::inline run {

// After the first host fails to start, wait this long for the other hosts, so that all failures are reported together.
inline constexpr std::chrono::milliseconds kGatherFailures{3'000};
// Agents that have dialled lose their connection while this process is stopped (Ctrl-Z). After it continues, they get
// this long to dial again.
inline constexpr std::chrono::milliseconds kRedialTime{3'000};
// Progress is reported at most so often, because each report has the names of all hosts that are not up.
inline constexpr std::chrono::milliseconds kProgressPeriod{200};
// When only services are left (model::Role::is_service), they get this long to end by themselves.
inline constexpr std::chrono::milliseconds kServiceTime{5'000};
// If the user interrupted the job, the launcher waits this long for its output after the processes are gone. Without a
// limit it would wait for ever if no process reads the console.
inline constexpr std::chrono::milliseconds kOutputAfterInterrupt{2'000};

// Returns the index of each host of the placement, by name. Names are distinct.
std::unordered_map<std::string, int> places_by_name(const model::Placement& placement);

class JobRunner::Core final : private AgentListener {
 public:
  Core(base::Loop& loop, const base::Clock& clock, JobSetup setup, std::shared_ptr<JobAgents> agents);

  base::Status start();
  void stop(StopCause cause);
  void signal_ranks(int signo, bool is_once);
  void suspend(bool on, base::Loop::Task done);
  void set_input(InputSource* source) { input_ = source; }
  void resize_terminal(int rows, int columns);
  base::Status stacks(const StackQuery& query, StackRequests::OnProcess on_process, base::Loop::Task done);
  base::Result<ExecControls> exec(const v1::ExecRequest& first, ExecCaller caller);
  base::Status explain_hang(std::function<void(const model::HangReport&)> done);
  base::Status set_live_hosts(std::vector<model::HostSpec> hosts);
  base::Status set_live_size(int min_ranks, std::optional<int> max_ranks);

 private:
  RunAction advance(RunEvent event);
  void proceed(RunEvent event);

  // Defined in job_start.cc:
  void agent_started(int agent) override;
  void agent_up(int agent, AgentUp up) override;
  void agent_failed(int agent, const std::string& message) override;
  void maybe_prepare();
  static base::Status two_names(const JobHost& one, const JobHost& other);
  base::Status merge_same_hosts();
  std::vector<int> find_used_same_hosts() const;
  base::Status place_merged(const model::JobSpec& job);
  bool check_networks();
  std::string make_session_secret() const;
  void prepare_hosts();
  void prepared(JobHost& host, const v1::Prepared& answer);
  void stage();
  void staged(const base::Status& status);
  void set_environment(v1::Launch& launch) const;
  void ask_shares();
  void store_shares(const model::Placement& decided);
  void launch();
  base::Result<LaunchPlanner> plan(const std::vector<JobHost*>& by_placed, const Attempt& attempt) const;
  void send_launch(const LaunchPlanner& plan, const std::vector<JobHost*>& by_placed, bool is_first);
  void assign_ranks(JobHost& host);
  void replay_history(JobHost& host);
  void watch_launch();
  void launch_timed_out();
  void send_window();
  void send_input(const std::vector<int>& ranks, std::string_view bytes, bool ends);

  // Defined in job_late.cc:
  void add_reserve(std::vector<AgentHost>& hosts);
  void host_start_failed(JobHost& host, const std::string& message);
  void fail_start_soon();
  void fail_start();
  void start_timed_out();
  void limit_start();
  bool is_late(const JobHost& host) const;
  std::string why_not_in_time(const JobHost& host) const;
  bool may_leave_out() const;
  bool are_members_settled();
  bool start_without_late();
  void release(JobHost& host);
  void use_placement(const NextGeneration& next);
  void report_progress();
  void send_progress();
  void remark_waiting();
  std::vector<std::string> waiting_hosts() const;
  std::pair<int, int> count_up() const;

  // Defined in job_events.cc:
  void agent_message(int agent, const v1::AgentMessage& message) override;
  void agent_stream(int agent, bool is_there) override;
  void note(const std::string& line) override;
  void warn(const std::string& line) override;
  void process(JobHost& host, const v1::AgentMessage& message);
  void process_rank_message(JobHost& host, const v1::AgentMessage& message);
  void process_exec_message(int agent, const v1::AgentMessage& message);
  Liveness::Events liveness_events();
  void rank_started(JobHost& host, const v1::RankStarted& started);
  void ranks_started(JobHost& host, const v1::RanksStarted& group);
  void ranks_exited(JobHost& host, const v1::RanksExited& group);
  void warn_of_bad_group(JobHost& host);
  void rank_ended(const JobHost& host, model::RankEnd end, std::int64_t agent_ns);
  void host_empty(JobHost& host, const v1::HostEmpty& empty);
  // Drops the line if there are kMaxStrayLines already.
  void add_stray_line(std::string line);
  void add_end(model::RankEnd end);
  void watch_services(const model::RankEnd& end);
  void report_to_peers(const model::RankEnd& end);
  void flush_peers(base::Duration pause);
  base::Duration peer_pause() const;
  void update_silent_peers();
  void suspected(const JobHost& host, bool is_suspect);
  void maybe_name_root_cause();
  void output_lost(JobHost& host, const std::string& why);
  bool may_report(JobHost& host, const v1::AgentMessage& message);
  bool may_report_on(JobHost& host, int rank);

  // Defined in job_spawn.cc:
  SpawnedWorlds::Events spawn_events();
  void spawn_requested(JobHost& host, const v1::SpawnRequest& request);
  base::Status spawn(JobHost& host, const v1::SpawnRequest& request);
  std::vector<SpawnHost> spawn_hosts() const;
  bool may_run(int rank) const;

  // Defined in job_live.cc:
  base::Status why_not_live() const;
  void start_live(const std::vector<JobHost*>& by_placed);
  LiveJob::Events live_events();
  bool goes_on_live() const { return live_ != nullptr && !live_->is_over() && !is_ending(phase_); }
  void add_live_end(model::RankEnd end);
  void first_collective(int generation);
  void rank_world(const v1::RankWorld& world);
  std::vector<std::string> hosts_by_rank() const;
  void arrival_times(const JobHost& host, const v1::ArrivalTimes& times);
  void lose_live_host(JobHost& host, HostAction how, const std::string& why);
  void live_host_lost(JobHost& host, const std::string& why);
  void begin_generation(const Generation& generation, std::vector<int> former);
  model::Placement placement_of(const ElasticPlan& plan) const;
  v1::RankTable rank_table_of_live(const ElasticPlan& plan) const;
  std::map<std::string, std::string> set_shares(model::Placement& placement) const;
  void place_hosts();
  void announce_new_members(const Generation& generation, const std::vector<int>& former);
  void live_over(const FinishJob& end);
  void label_output();
  void wake_live(std::optional<base::MonotonicTime> at);
  void live_changed();
  LiveHosts live_hosts() const;
  void report_live_hosts();
  base::Result<std::string> live_address(const std::vector<int>& agents) const;
  int shown_rank(int number) const;
  std::vector<int> shown_ranks(const JobHost& host) const;

  // Defined in job_joins.cc:
  void know_hosts();
  std::vector<ElasticHost> listed_hosts() const;
  base::Result<int> add_live_host(const std::string& name);
  void start_live_host(JobHost& host);
  void start_waiting_hosts();
  void live_host_overdue(int agent);
  void live_start_failed(JobHost& host, const std::string& why);
  const JobHost* same_host(const JobHost& host) const;
  void prepare_live_host(JobHost& host);
  void live_host_prepared(JobHost& host);
  void stage_live_host(JobHost& host);
  void live_host_staged(int agent, base::Status status);
  std::vector<model::BoundRank> running_ranks(const ElasticPlan& plan) const;
  base::Status start_live(const Generation& generation, const std::vector<int>& agents,
                          const std::vector<NewProcess>& processes, const std::string& address);
  void order_processes(JobHost& host, v1::Launch launch, const std::vector<NewProcess>& processes);
  void release_live_host(JobHost& host);
  void release_live_hosts();

  // Defined in job_hang.cc:
  HangWatch::Events hang_events();
  bool expects_progress() const;
  std::optional<std::uint64_t> ask_evidence(EvidenceRequests::Rounds rounds, EvidenceRequests::Done done);
  void show_ranks(model::HangLook& look) const;
  void complete_facts(model::HangFacts& facts) const;
  void hang_found(const model::HangReport& report);
  void end_hung(const model::HangReport& report);
  void end_hung_process(const model::HangReport& report);

  // Defined in job_end.cc:
  bool may_have_ranks() const;
  void keep_early_stop(StopCause cause);
  void begin_stop(StopCause cause, std::chrono::milliseconds grace, const std::string& reason);
  bool end_start();
  void give_up_start(JobHost& host);
  void send_stop(std::chrono::milliseconds grace, const std::string& reason, bool is_requested);
  void limit_stop(std::chrono::milliseconds grace, bool may_wait_for_gpus);
  void stop_overdue();
  void handle(JobHost& host, HostEvent event, const std::string& why);
  void agent_gone(int agent, const base::Status& status) override;
  void agent_unreadable(int agent) override;
  void host_lost(JobHost& host, HostAction how, const std::string& why);
  void end_lost_processes(JobHost& host, HostAction how);
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

  base::Loop& loop_;
  const base::Clock& clock_;
  model::JobSpec job_;  // only `placement` changes
  model::Placement placement_;
  const LaunchOptions options_;
  const base::Environment environment_;
  OutputSink* const sink_;
  ActivitySink activity_{sink_};
  LiveOutput live_output_{&activity_};  // for a job whose ranks change
  JobObserver* const observer_;

  HostRoster hosts_;
  HostWarnings host_warnings_{loop_, [this](const std::string& line) { observer_->on_warning(line); }};
  Liveness liveness_{clock_, job_.lease, hosts_, liveness_events()};
  SpawnedWorlds worlds_{hosts_, placement_.size, spawn_events()};
  StopPlan stop_{job_.kill_grace, options_.resumed_stop, options_.resumed_at_once};
  std::string master_address_;
  EndCollector ends_;
  PeerFailures peer_failures_{
      [this](int agent, v1::LauncherMessage message) { agents_->send(agent, std::move(message)); }};
  PeerCredentialQueries peer_queries_{
      [this](int agent, v1::LauncherMessage message) { agents_->send(agent, std::move(message)); }};
  InputSource* input_ = nullptr;
  std::unique_ptr<InputFeed> feed_;  // set by launch(); nullptr if no rank reads input
  v1::WindowSize window_;
  StackRequests stack_requests_{
      loop_, [this](int agent, v1::LauncherMessage message) { agents_->send(agent, std::move(message)); }};
  ExecCalls exec_calls_{loop_,
                        [this](int agent, v1::LauncherMessage message) { agents_->send(agent, std::move(message)); }};
  EvidenceRequests evidence_requests_{
      loop_, clock_, [this](int agent, v1::LauncherMessage message) { agents_->send(agent, std::move(message)); }};
  HangWatch hang_watch_{loop_, clock_, job_.hang, hang_events()};
  std::map<int, std::string> stderr_tails_;
  std::vector<HostFailure> host_failures_;
  std::vector<HostFailure> not_up_;  // hosts that failed or are late while the job may start without them
  std::size_t remarks_ = 0;          // lines on hosts that the job waits for
  base::MonotonicTime progress_at_{};
  std::vector<HostFailure> unclean_;
  std::vector<std::string> stray_lines_;
  int strays_killed_ = 0;
  std::string output_failure_;
  base::MonotonicTime started_at_{};
  JobPhase phase_ = JobPhase::kConnecting;  // only advance() changes it
  PhaseTimers timers_{loop_, phase_};
  bool root_reported_ = false;
  bool are_suspects_new_ = false;  // peer_failures_ does not know the suspect hosts yet
  Suspension suspension_{hosts_, timers_,
                         [this](int agent, v1::LauncherMessage message) { agents_->send(agent, std::move(message)); }};
  std::optional<std::vector<model::HostSpec>> early_hosts_;       // from set_live_hosts(), until the ranks run
  std::optional<std::pair<int, std::optional<int>>> early_size_;  // from set_live_size(), until the ranks run
  std::string session_secret_;                                    // sent with Prepare
  std::map<std::string, model::PlacedHost> known_hosts_;          // of a live job, by the names of slots; without ranks
  std::vector<int> waiting_hosts_;          // agents that start when the former agent of their host has left no process
  std::map<int, base::Timer> live_starts_;  // by agent that joins: the limit for its start
  std::map<int, std::unique_ptr<JobStaging>> live_stagings_;  // by agent that joins
  std::map<int, model::BoundRank> live_bindings_;             // by number; of a live job
  std::map<int, long> live_pids_;                             // by number of a process that has not joined yet
  std::string live_reason_;                                   // the first failure of this generation, for people
  // The present generation's number, and its cause's time. nullopt in the first one, and once the generation's first
  // collective was reported.
  std::optional<std::pair<int, base::MonotonicTime>> awaits_collective_;
  int live_generation_ = 0;  // the number of the present generation of a live job
  WorldAudit world_audit_{placement_.size};
  Lateness lateness_;
  StepCount steps_;
  std::unique_ptr<LiveJob> live_;                            // set by launch(); nullptr if the ranks are fixed
  base::Timer live_report_;                                  // runs while a report of the hosts is due
  LiveHosts reported_hosts_;                                 // the last report
  base::Gate shares_gate_;                                   // reset for each query of the shares
  std::unique_ptr<JobStaging> staging_;                      // exists only in kStaging
  std::optional<v1::LaunchEnvironment> staged_environment_;  // from which ranks start
  base::MonotonicTime start_deadline_{};
  // Last member: the agents are destroyed before anything that they call back into.
  const std::shared_ptr<JobAgents> agents_;
};

}  // namespace muster::launcherd::run
