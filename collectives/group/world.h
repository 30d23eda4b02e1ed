// What a process is in its job: its rank, the other ranks, and how news of them comes. Shared by all its communicators.
#pragma once

#include <unistd.h>

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
#include "collectives/call/farewell.h"
#include "collectives/join/member.h"
#include "collectives/join/service.h"
#include "collectives/join/session.h"
#include "collectives/join/session_host.h"
#include "collectives/transport/abort.h"
#include "collectives/transport/handshake.h"
#include "collectives/transport/tcp_options.h"

namespace muster::collectives::inline group {

// The length of the queue of a listener at which other ranks connect.
inline constexpr int kPeerBacklog = 1024;

struct WorldOptions {
  std::chrono::milliseconds deadline{30'000};  // of one operation without progress
  std::chrono::milliseconds join_deadline{120'000};
  bool checks_calls = false;  // MUSTER_CHECK_CALLS: ranks wait for each other before operations that have a root
  std::string algorithm{};    // of every allreduce that it can do; empty: MUSTER_ALGORITHM, or the one that fits
};

// How a process reaches the others.
struct WorldSetup {
  int rank = 0;
  int size = 1;
  std::string place;        // as Member.place; empty: this process's own
  std::string address;      // IP literal at which other hosts reach this process; empty: loopback
  base::UniqueFd listener;  // TCP, listening there; none: a port of its own
  // Where this process has reached rank 0, whose host may have several addresses: all ranks of that host are reached
  // there. Empty: they are where they say.
  std::string address_of_rank_0;
  // One of: connected to the agent, or to rank 0 after the handshake; or this is rank 0 of a job without an agent.
  base::UniqueFd session;
  std::unique_ptr<SessionHost> host;
  std::string secret;     // 32 bytes; with an agent it comes from there
  bool encrypts = false;  // connections to ranks of other hosts; the same on all ranks
};

// What is told of ended ranks and of failures elsewhere. Called on the service thread.
class NewsListener {
 public:
  virtual ~NewsListener() = default;
  // `failed` is false for a rank that ended with exit code 0.
  virtual void on_ended(const Member& member, bool failed, const std::string& cause) = 0;
};

// Thread-safe.
class World {
 public:
  // Under a launcher by MUSTER_SESSION_DIR, alone by MUSTER_RENDEZVOUS (CONTRACT.md §1), else a world of this process.
  // Returns when all ranks have come. After an error `why` (may be null) names the rank that failed or did not come;
  // -1 if no rank did.
  static base::Result<std::shared_ptr<World>> join(const WorldOptions& options, Failure* why = nullptr);
  static base::Result<std::shared_ptr<World>> join(const WorldOptions& options, WorldSetup setup,
                                                   Failure* why = nullptr);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // False: this is a copy in a child that was forked. It has no threads, and must not say or free anything.
  bool is_of_this_process() const { return process_ == getpid(); }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  const Member& member(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  const WorldOptions& options() const { return options_; }
  Service& service() { return *service_; }
  const std::string& secret() const { return secret_; }

  // From now on it is told; first, within the call, of all that have ended so far.
  void listen(NewsListener& listener);
  void unlisten(NewsListener& listener);
  // How this rank ended, for messages: nullopt while it has not.
  struct End {
    bool failed = false;
    std::string cause;
    std::size_t number = 0;  // counts the ends in the order in which this process heard of them, from 0
  };
  std::optional<End> end_of(int rank) const;

  // News of the launcher: it does not hear from the host of this rank, or hears from it again. Nothing fails for it.
  void set_silent(int rank, bool is_silent);
  // Those of `ranks` whose host is silent and whose end is not known, in their order.
  std::vector<int> silent_of(std::span<const int> ranks) const;

  // Measured by the first communicator, which is that of all ranks; the same on all ranks of a host.
  bool reading_peers_pays() const { return reading_peers_pays_; }
  void set_reading_peers_pays(bool pays) { reading_peers_pays_ = pays; }

  Farewell& farewell() { return farewell_; }

  // Values of the job by name, for ranks that agree on something. DEADLINE_EXCEEDED: nobody has put it yet.
  base::Status put(const std::string& name, const std::string& value);
  base::Result<std::string> look(const std::string& name, std::chrono::milliseconds time);

  // The same on all ranks of all hosts.
  const LinkSpeed& link_speed() const { return link_speed_; }
  void set_link_speed(const LinkSpeed& speed) { link_speed_ = speed; }

  // Tells the ranks of other hosts why a communicator has ended, and hears it from them. A world of one process has
  // nobody to tell.
  void tell_failure(const std::string& communicator, const Failure& failure);
  // At the deadline of an operation: tells whom this rank waits for, and asks whom `rank` waits for. nullopt: it does
  // not say, so it is the one that does not come (it runs something else, is stopped, or cannot be reached).
  void tell_late(const std::string& communicator, int late);
  std::optional<int> late_for(const std::string& communicator, int rank);
  // Whether one of `ranks` says whom it waits for.
  bool late_for_any(const std::string& communicator, std::span<const int> ranks);

  // `heard` is called on the service thread, also after unhear_failure() if it is just being called.
  std::uint64_t hear_failure(const std::string& communicator, std::function<void(const Failure&)> heard);
  void unhear_failure(std::uint64_t id);

  const TcpOptions& tcp_options() const { return tcp_options_; }
  // Waits until it is known how this rank ended, or that one of `others` has failed. nullopt: this rank's end is not
  // known then, or after `time`.
  std::optional<End> wait_for_end(int rank, std::chrono::milliseconds time, std::span<const int> others = {}) const;
  // The first of `ranks` of whose failure this process has heard. Waits up to `time` for such news. A rank that ends
  // because of another rank's failure is reported after it.
  std::optional<int> wait_for_failed(std::span<const int> ranks, std::chrono::milliseconds time) const;

  // A connection to `rank`'s service for `communicator`, after the handshake; blocking.
  base::Result<Connection> connect_to(int rank, const std::string& communicator, const AbortRecord& abort);
  // The same without waiting: its first step is still to be taken.
  base::Result<Handshake> begin_call(int rank, const std::string& communicator);

 private:
  class PolledHost;

  World() = default;
  base::Status start_service(WorldSetup& setup);
  base::Status join_session(WorldSetup& setup);
  base::Result<base::UniqueFd> session_socket(WorldSetup& setup);
  base::Status meet();
  base::Status check_encryption() const;
  LinkRequest request_to(int rank, const std::string& communicator) const;
  base::Result<std::string> wait_for_member(int rank, base::MonotonicTime deadline);
  std::optional<int> first_failed(std::span<const int> ranks) const;  // with the lock
  std::vector<int> all_ranks() const;
  base::Status check_nobody_failed() const;
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
  bool has_agent_ = false;  // which keeps the session
  int awaited_ = -1;        // the rank that has not joined yet; -1: none is waited for
  bool reading_peers_pays_ = false;
  Farewell farewell_;
  LinkSpeed link_speed_;
  TcpOptions tcp_options_ = TcpOptions::from_environment();
  mutable std::mutex mutex_;
  mutable std::condition_variable news_;
  std::map<int, End> ends_;
  std::set<int> silent_;
  std::vector<NewsListener*> listeners_;
  bool is_left_ = false;  // news of our own doing are none
  std::shared_ptr<SessionHost> host_;
  std::shared_ptr<PolledHost> polled_host_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Service> service_;  // its thread uses all above: ends first
};

}  // namespace muster::collectives::group
