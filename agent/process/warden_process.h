// The warden process itself: the loop that Warden::start forks.
//
// Thread: single-threaded, with all signals blocked. It leaves by _exit and never returns.
// End: it ends when the agent orders it to leave or is gone, after it has killed everything.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/proc/descendant_notes.h"
#include "agent/proc/session_dir.h"
#include "agent/process/free_memory.h"
#include "agent/process/job_container.h"
#include "agent/process/lease_page.h"
#include "agent/process/message_socket.h"
#include "agent/process/oom_watch.h"
#include "agent/process/spawner.h"
#include "agent/process/warden_protocol.h"
#include "base/unique_fd.h"

namespace muster::agent::inline process {

// The agent's settings for its warden, complete before the fork.
struct WardenSetup {
  std::string job_id;
  std::string agent_id;
  std::chrono::milliseconds lease_margin{};
  std::chrono::milliseconds agent_patience{};
  bool use_pidns = false;  // this process is init of a new PID namespace and has a mount namespace
  bool use_cgroup = false;
  bool require_cgroup = false;  // if false, the warden also serves without a cgroup
  std::string note;             // why the attempt at a better level failed
  pid_t agent_pid = 0;
  base::UniqueFd agent_pidfd;  // invalid on old kernels; the socket's EOF shows the agent's end, too
  base::UniqueFd host_proc;    // /proc of the agent's namespace
};

class WardenProcess {
 public:
  WardenProcess(WardenSetup setup, SessionDir session, LeasePage lease, base::UniqueFd socket);
  [[noreturn]] void run();

 private:
  using Time = base::MonotonicTime;
  struct Rank {
    pid_t pid = 0;  // as the agent sees it
    bool is_signalled_by_us = false;
    bool is_killed_by_us = false;
    std::string program{};  // these three as in ExitFacts
    std::string workdir{};
    std::uint64_t core_limit = 0;
  };
  enum class Phase { kServing, kStopping, kFinishing };

  base::Status set_up();
  base::Status set_up_cgroup();
  [[noreturn]] void refuse(const base::Status& status);
  void wait_for_events();
  void read_commands();
  void handle_next_command();
  void handle(SpawnRequest& command);
  void handle(const SignalCommand& command);
  void handle(const StopCommand& command);
  void handle(const FinishCommand& command);
  void handle(const PauseCommand& command);
  [[noreturn]] void handle(const LeaveCommand& command);

  void drop_waiting_commands();
  void refuse_spawn(const SpawnRequest& request);
  void reap();
  void rank_ended(pid_t pid, Rank& rank, const std::string& command, int status, std::uint64_t peak_kib);
  void send(WardenEvent event);
  void signal_rank(pid_t pid_inside, Rank& rank, int signo);
  bool rank_groups_are_gone() const;
  void check_deadlines();
  void check_lease(Time now);
  void check_agent(Time now);
  void wait_on_for_agent();
  int poll_timeout(Time now) const;
  JobEmpty empty_the_job();
  void note_outside(const std::vector<Member>& members, std::map<pid_t, pid_t>& outside) const;
  [[noreturn]] void agent_is_gone();

  WardenSetup setup_;
  SessionDir session_;
  LeasePage lease_;
  MessageSocket socket_;
  base::UniqueFd child_signal_;
  Containment containment_;
  std::unique_ptr<JobContainer> container_;
  std::unique_ptr<Spawner> spawner_;
  std::unique_ptr<OomWatch> oom_;
  MemorySources memory_;
  std::unique_ptr<DescendantNotes> descendants_;  // null if a cgroup or a namespace holds the descendants

  std::deque<WardenCommand> commands_;  // in order of arrival, not handled yet
  std::map<pid_t, Rank> ranks_;         // running ranks, by the pid that this process sees
  std::map<pid_t, int> rank_numbers_;   // numbers of all ranks that ran since the job was last empty
  Phase phase_ = Phase::kServing;
  Time deadline_{};                    // the deadline of kStopping or kFinishing
  std::optional<Time> expired_lease_;  // the expired lease on which the warden has acted
  // Set when a lease has expired. The warden kills an agent that has sent nothing by this time.
  std::optional<Time> agent_deadline_;
};

}  // namespace muster::agent::process
