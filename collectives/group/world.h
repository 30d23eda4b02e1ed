// A process's view of its job: its rank, the other ranks, and their ends. All communicators of the process share it.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "collectives/algorithm/choice.h"
#include "collectives/call/shutdown_budget.h"
#include "collectives/join/meeting.h"
#include "collectives/join/member.h"
#include "collectives/join/service.h"
#include "collectives/join/session.h"
#include "collectives/join/session_host.h"
#include "collectives/transport/abort.h"
#include "collectives/transport/handshake.h"
#include "collectives/transport/tcp_options.h"

namespace muster::collectives::inline group {

// Backlog of the listener for connections from other ranks.
inline constexpr int kPeerBacklog = 1024;

struct WorldOptions {
  std::chrono::milliseconds deadline{30'000};  // longest time of one operation without progress
  std::chrono::milliseconds join_deadline{120'000};
  bool checks_calls = false;  // MUSTER_CHECK_CALLS: before operations with a root, ranks wait for each other
  std::string algorithm{};    // for every allreduce that supports it; empty means MUSTER_ALGORITHM, or the best fit
};

// How a process reaches the other ranks.
struct WorldSetup {
  int rank = 0;
  int size = 1;
  std::string place;        // same as Member.place; empty means this process's own
  std::string address;      // IP literal at which other hosts reach this process; empty means loopback
  base::UniqueFd listener;  // TCP, listening at `address`; if invalid, the world opens a port
  // The address at which this process has reached rank 0, whose host may have several. This process then uses the
  // address for all ranks of that host. Empty means that each rank's own address is used.
  std::string address_of_rank_0;
  // One of three cases holds. `session` is connected to the agent. Or it is connected to rank 0, after the handshake.
  // Or this is rank 0 of a job without an agent, and `host` is set.
  base::UniqueFd session;
  std::unique_ptr<SessionHost> host;
  std::string secret;     // 32 bytes; with an agent the secret comes from the agent
  bool encrypts = false;  // encrypts connections to ranks of other hosts; the same on all ranks
  // True: this process notices the ends of processes of its host by itself. No agent reports them.
  bool watches_processes = false;
  std::function<base::Status()> check{};  // same as Meeting.check; called every 250 ms until all ranks have joined
};

// Receives reports of ended ranks, on the service thread.
class EndListener {
 public:
  virtual ~EndListener() = default;
  // `failed` is false for a rank that ended with exit code 0.
  virtual void on_ended(const Member& member, bool failed, const std::string& cause) = 0;
};

// Thread: any.
class World {
 public:
  // Joins through MUSTER_SESSION_DIR under a launcher, or through MUSTER_RENDEZVOUS without one (CONTRACT.md §1). If
  // neither is set, the world has only this process. Returns when all ranks have joined.
  // After an error, `why` (may be null) names the rank that failed or did not join. Its rank is -1 if no rank caused
  // the error.
  static base::Result<std::shared_ptr<World>> join(const WorldOptions& options, Failure* why = nullptr);
  // Joins by `meeting`, whatever the environment says.
  static base::Result<std::shared_ptr<World>> join(const WorldOptions& options, const Meeting& meeting,
                                                   Failure* why = nullptr);
  static base::Result<std::shared_ptr<World>> join(const WorldOptions& options, WorldSetup setup,
                                                   Failure* why = nullptr);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Returns false in a forked child, which has a copy without threads. A copy must not send or free anything.
  bool is_of_this_process() const { return process_ == getpid(); }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  const Member& member(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  const WorldOptions& options() const { return options_; }
  Service& service() { return *service_; }
  const std::string& secret() const { return secret_; }

  // Registers `listener`. Before it returns, it reports all ranks that have ended so far.
  void listen(EndListener& listener);
  void unlisten(EndListener& listener);
  // How a rank ended, for messages; nullopt while it runs.
  struct End {
    bool failed = false;
    std::string cause;
    std::size_t number = 0;  // position in the order in which this process learned of ends, from 0
  };
  std::optional<End> end_of(int rank) const;

  // Call this when the launcher reports that the host of this rank has stopped answering, or that it answers again. No
  // operation fails because of it.
  void set_silent(int rank, bool is_silent);
  // Returns those of `ranks` whose host is silent and whose end is not known, in the given order.
  std::vector<int> silent_of(std::span<const int> ranks) const;

  // Returns whether reading peers' memory pays. The first communicator, which has all ranks, measures it. The value is
  // the same on all ranks of a host.
  bool reading_peers_pays() const { return reading_peers_pays_; }
  void set_reading_peers_pays(bool pays) { reading_peers_pays_ = pays; }

  ShutdownBudget& shutdown_budget() { return shutdown_budget_; }

  // Values of the job by name, for ranks that must agree. get() returns DEADLINE_EXCEEDED if no rank has put the value
  // within `time`.
  base::Status put(const std::string& name, const std::string& value);
  base::Result<std::string> get(const std::string& name, std::chrono::milliseconds time);

  // The value is the same on all ranks of all hosts.
  const LinkSpeed& link_speed() const { return link_speed_; }
  void set_link_speed(const LinkSpeed& speed) { link_speed_ = speed; }

  // Takes the report that a rank has failed from a source other than the session.
  void rank_failed(int rank, const std::string& cause) { ended(rank, true, cause); }

  // A communicator has ended, by a failure or because its engine was shut down, so that this world is left soon.
  void note_failure() { has_failed_ = true; }

  // Reports to the ranks of other hosts why a communicator has ended. A world of one process sends nothing.
  void report_failure(const std::string& communicator, const Failure& failure);
  // For deadlines of operations. report_late() publishes the rank that this rank waits for. late_for() returns the rank
  // that `rank` waits for, or nullopt if `rank` has published none. Then `rank` itself is late: it runs something else,
  // is stopped, or is unreachable.
  void report_late(const std::string& communicator, int late);
  std::optional<int> late_for(const std::string& communicator, int rank);
  // Returns whether any of `ranks` has published the rank that it waits for.
  bool late_for_any(const std::string& communicator, std::span<const int> ranks);

  // Calls `on_failure` on the service thread. A call that has begun before unwatch_failure() may end after
  // unwatch_failure() returns.
  std::uint64_t watch_failure(const std::string& communicator, std::function<void(const Failure&)> on_failure);
  void unwatch_failure(std::uint64_t id);

  // The time that the report of a rank's end needs: from the agent that saw it, through the launcher, to the ranks of
  // other hosts.
  static constexpr std::chrono::milliseconds kEndReportTime{800};
  const TcpOptions& tcp_options() const { return tcp_options_; }
  // Waits until this process knows how `rank` ended, until one of `others` has failed, or for `time`. nullopt if the
  // end of `rank` is not known then.
  std::optional<End> wait_for_end(int rank, std::chrono::milliseconds time, std::span<const int> others = {}) const;
  // Returns the first of `ranks` whose failure this process has learned of. Waits up to `time` for such a report. A
  // rank that ends because of another rank's failure is reported after it.
  std::optional<int> wait_for_failed(std::span<const int> ranks, std::chrono::milliseconds time) const;

  // Connects to `rank`'s service for `communicator` and does the handshake. Blocks.
  base::Result<Connection> connect_to(int rank, const std::string& communicator, const AbortRecord& abort);
  // Does what connect_to() does, without waiting. The caller must drive the handshake from its first step.
  base::Result<Handshake> begin_call(int rank, const std::string& communicator);

 private:
  class PolledHost;

  World() = default;
  base::Status start_service(WorldSetup& setup);
  base::Status join_session(WorldSetup& setup);
  base::Result<base::UniqueFd> session_socket(WorldSetup& setup);
  base::Status meet();
  void watch_processes();
  base::Status check_encryption() const;
  LinkRequest request_to(int rank, const std::string& communicator) const;
  base::Result<std::string> wait_for_member(int rank, base::MonotonicTime deadline);
  std::optional<int> first_failed(std::span<const int> ranks) const;  // needs the lock
  std::vector<int> all_ranks() const;
  base::Status check_nobody_failed() const;
  std::chrono::milliseconds farewell_time() const;
  Failure blame(const base::Status& not_joined) const;
  base::Result<Member> own_member() const;
  void ended(int rank, bool failed, const std::string& cause);
  std::string key(const std::string& name) const;

  const pid_t process_ = getpid();
  int rank_ = 0;
  std::string place_;
  bool encrypts_ = false;
  std::uint32_t generation_ = 0;
  std::string secret_;
  WorldOptions options_;
  std::vector<Member> members_;
  std::string own_address_;
  std::uint16_t own_port_ = 0;
  std::string address_of_rank_0_;
  bool has_agent_ = false;  // the agent keeps the session
  std::function<base::Status()> check_;
  bool watches_processes_ = false;
  std::atomic<bool> has_failed_{false};  // a communicator has ended
  int awaited_ = -1;                     // the rank that has not joined yet; -1 if this process waits for none
  bool reading_peers_pays_ = false;
  ShutdownBudget shutdown_budget_;
  LinkSpeed link_speed_;
  TcpOptions tcp_options_ = TcpOptions::from_environment();
  mutable std::mutex mutex_;
  mutable std::condition_variable ends_changed_;
  std::map<int, End> ends_;
  std::set<int> silent_;
  std::vector<EndListener*> listeners_;
  bool is_left_ = false;  // if true, this process ignores reports that its own end causes
  std::shared_ptr<SessionHost> host_;
  std::shared_ptr<PolledHost> polled_host_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Service> service_;  // last, because its thread uses all above and must end first
};

}  // namespace muster::collectives::group
