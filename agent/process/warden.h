// The agent's handle on the warden: the process that is the parent of all ranks of the job on this host.
//
// The warden is single-threaded and forked before the agent's first thread. Warden and agent are both subreapers and
// not dumpable.
// The warden spawns, contains, kills and reaps, and it watches the agent. If the agent dies or its lease runs out,
// the warden kills everything that is contained. Then it kills an agent that does not react.
// If the warden dies, the agent kills instead (clean_up_without_warden).
//
// Owner: the agent's main or a job's session; one per job.
// Thread: start() comes before any thread exists. Afterwards use it from one thread at a time; renew_lease() may come
// from any thread.
// Only start(), close(), clean_up_without_warden() and the destructor block.
// Errors: an error of a command means that the warden is gone. Everything else that fails comes as an event.
// Destruction without close() has the same effect as the agent's death.
//
// Example:
//   MUSTER_ASSIGN_OR_RETURN(Warden warden, Warden::start({.job_id = job, .agent_id = "0"}));
//   warden.spawn(request);                       // many, without waiting
//   poll(warden.fd()); for (auto& event : *warden.read_events()) …   // RankStarted, RankExited
//   warden.stop(5s);                             // or finish() when all ranks have ended
//   … until JobEmpty; then warden.close();
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/launch/spawn_request.h"
#include "agent/process/warden_events.h"
#include "base/clock.h"
#include "base/status.h"

namespace muster::agent::inline process {

struct WardenOptions {
  std::string job_id = {};        // becomes MUSTER_JOB_ID of every rank
  std::string agent_id = {};      // tells agents of one job apart; matches [A-Za-z0-9._-]+
  std::string session_root = {};  // empty means ${MUSTER_TMPDIR:-/tmp}
  ContainLevel contain = ContainLevel::kAuto;
  // The warden acts this long after the end of the lease, so that the agent may act first.
  std::chrono::milliseconds lease_margin{500};
  // When the lease has run out, the warden kills an agent that does nothing for this long. If the agent begins to end
  // its job but then sends nothing for twice this time, the warden kills it, too.
  std::chrono::milliseconds agent_patience{5000};
};

struct WardenParts;

class Warden {
 public:
  // Makes the session directory (0700), takes the lock in it, and forks the warden. Makes the calling process a
  // subreaper that is not dumpable.
  // FAILED_PRECONDITION: this host does not allow the requested containment; the message has the reason.
  static base::Result<Warden> start(const WardenOptions& options);
  // Makes a handle from parts that the nursery has made for this process.
  static base::Result<Warden> adopt(const WardenOptions& options, WardenParts parts);
  ~Warden();
  Warden(Warden&&) noexcept;
  Warden& operator=(Warden&&) noexcept;

  // Readable when read_events() must be called: something can be read or written. The number never changes.
  int fd() const;
  // Returns everything that has arrived; never blocks. UNAVAILABLE: the warden is gone, so call
  // clean_up_without_warden().
  base::Result<std::vector<WardenEvent>> read_events();

  // RankStarted or RankStartFailed answers each call, in order.
  base::Status spawn(const SpawnRequest& request);
  // Sends a signal to the rank's process group. -1 means the groups of all ranks that have not ended, without commands
  // (kFirstCommand).
  base::Status signal(int rank, int signo);
  // Sends TERM to all rank groups now. Sends KILL to everything contained after `grace`, or as soon as all ranks and
  // their groups have ended. Then the audit and JobEmpty follow.
  // A second call shortens the grace. A grace of 0 means KILL now.
  base::Status stop(std::chrono::milliseconds grace);
  // Call it when all ranks have ended. Commands and detached children may end by themselves for `patience`; then KILL,
  // the audit and JobEmpty follow. After JobEmpty, spawn() may be used again.
  // FAILED_PRECONDITION: some ranks still run. They are left alone.
  base::Status finish(std::chrono::milliseconds patience = std::chrono::milliseconds(100));
  // Stops or continues everything contained (Ctrl-Z of the launcher). Does not change the lease.
  base::Status pause(bool on);

  // Writes the lease into the memory shared with the warden and into <session>/alive. After `until` and the margin,
  // the warden kills everything, even while the agent is stopped.
  // No lease is in force before the first call and after suspend_lease().
  void renew_lease(base::MonotonicTime until);
  void suspend_lease();
  // Continues a warden that was stopped (SIGSTOP). Returns false if the warden is at this moment stopped, traced, or
  // hangs in the kernel.
  // Call it again and again. stop() and close() call it, too.
  bool keep_running();
  // Kills a warden that hangs. read_events() then reports its end, as it reports any other end.
  void kill_hung();
  // Call this when the job must end. The kernel kills the calling process if it still lives at `when`, whatever the
  // lease is.
  // Works only for a warden that start() has made. An agent with a nursery has a timer of its own (AgentLease).
  void end_agent_by(base::MonotonicTime when);

  const Containment& containment() const;
  // The directory that ranks get as MUSTER_SESSION_DIR. The last of agent and warden removes it at the end.
  const std::string& session_dir() const;
  pid_t pid() const;  // the warden's pid

  // Orderly end, after JobEmpty: the warden leaves, and the session directory is removed. Blocks for at most some
  // seconds.
  // close() hardly blocks if begin_close() was called before and read_events() has since returned UNAVAILABLE.
  base::Status close();
  void begin_close();

  // Ranks whose end the warden could no longer report, and everything that had to be killed.
  struct Aftermath {
    std::vector<RankExited> ranks;
    std::vector<RankStartFailed> not_started;  // spawns without an answer
    JobEmpty empty;
  };
  // Call it after read_events() failed: adopts and kills what is left. `spare` holds children of the agent that are
  // not of the job. Blocks until done, normally some ms, at most 5 s.
  Aftermath clean_up_without_warden(const std::vector<pid_t>& spare = {});

 private:
  struct State;
  explicit Warden(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace muster::agent::process
