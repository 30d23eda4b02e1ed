// The agent's handle on the warden: the process that is the parent of all ranks of the job on this host.
//
// The warden is single-threaded, forked before the agent's first thread, not dumpable and a subreaper; so is the agent.
// It spawns, contains, kills and reaps, and it watches the agent: when the agent dies, or when its lease has run out,
// it kills everything that is contained, by itself, and then an agent that does nothing about it. When the warden dies,
// the agent does (clean_up_without_warden).
//
// Owner: the agent's main; one per process. Thread: start() before any thread exists; afterwards one thread at a time,
// renew_lease() also from any. No call blocks but start(), close(), clean_up_without_warden() and the destructor.
// Failure: an error of a command means that the warden is gone; what else goes wrong comes as an event.
// Destruction without close(): as if the agent had died.
//
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
  std::string agent_id = {};      // tells agents of one job apart: [A-Za-z0-9._-]+
  std::string session_root = {};  // empty: ${MUSTER_TMPDIR:-/tmp}
  ContainLevel contain = ContainLevel::kAuto;
  std::chrono::milliseconds lease_margin{
      500};  // the warden acts this long after the lease, so that the agent may first
  // An agent that then does nothing for this long is killed, and so is one that begins to end its job and falls silent
  // for twice this.
  std::chrono::milliseconds agent_patience{5000};
};

struct WardenParts;

class Warden {
 public:
  // Makes the session directory (0700), takes the lock in it, forks. Makes the calling process a subreaper that is not
  // dumpable. FAILED_PRECONDITION: the containment asked for is not possible here, with the reason.
  static base::Result<Warden> start(const WardenOptions& options);
  // The same of parts that the nursery has made for this process.
  static base::Result<Warden> adopt(const WardenOptions& options, WardenParts parts);
  ~Warden();
  Warden(Warden&&) noexcept;
  Warden& operator=(Warden&&) noexcept;

  int fd() const;  // readable when read_events() has something to do (also to write); stays the same
  // Everything that has arrived; never blocks. UNAVAILABLE: the warden is gone, call clean_up_without_warden().
  base::Result<std::vector<WardenEvent>> read_events();

  // Answered by RankStarted or RankStartFailed, in order.
  base::Status spawn(const SpawnRequest& request);
  // To the process group of the rank, -1: of all ranks that have not ended.
  base::Status signal(int rank, int signo);
  // TERM to all rank groups now; KILL to everything contained after `grace`, or as soon as all ranks and their groups
  // have ended; then the audit and JobEmpty. A second call shortens the grace. grace 0: KILL now.
  base::Status stop(std::chrono::milliseconds grace);
  // All ranks have ended: what is left (detached children) may end by itself for `patience`, then KILL, audit,
  // JobEmpty. Ranks that still run are left alone: then this is FAILED_PRECONDITION. After JobEmpty, spawn() may be
  // used again.
  base::Status finish(std::chrono::milliseconds patience = std::chrono::milliseconds(100));
  // Stops or continues everything contained (Ctrl-Z of the launcher). Does not touch the lease.
  base::Status pause(bool on);

  // In memory shared with the warden and in <session>/alive. From then on (plus the margin) the warden kills
  // everything, even while the agent is stopped. No lease is in force before the first call and after suspend_lease().
  void renew_lease(base::MonotonicTime until);
  void suspend_lease();
  // Continues a warden that was stopped (SIGSTOP). False: at this moment it is stopped, traced, or hangs in the kernel.
  // To be asked again and again. stop() and close() continue it, too.
  bool keep_running();
  // For one that hangs: its end is then read as any other.
  void kill_hung();
  // The job is to end now: the calling process is killed if it still lives then, whatever the lease. Only of a warden
  // that start() has made.
  void end_agent_by(base::MonotonicTime when);

  const Containment& containment() const;
  const std::string& session_dir() const;  // MUSTER_SESSION_DIR of the ranks; removed at the end by whoever is last
  pid_t pid() const;                       // of the warden

  // Orderly end, after JobEmpty: the warden leaves, the session directory is removed. Blocks for at most some seconds,
  // and hardly at all when begin_close() was called before and read_events() has had its UNAVAILABLE since.
  base::Status close();
  void begin_close();

  // What became of the ranks whose end the warden did not report any more, and what had to be killed.
  struct Aftermath {
    std::vector<RankExited> ranks;
    std::vector<RankStartFailed> not_started;  // spawns that were not answered
    JobEmpty empty;
  };
  // After read_events() failed: adopts and kills what is left. `spare`: children of the agent that are not of the job.
  // Blocks until done, normally some ms, bounded by 5 s.
  Aftermath clean_up_without_warden(const std::vector<pid_t>& spare = {});

 private:
  struct State;
  explicit Warden(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace muster::agent::process
