// Serves one job's Open MPI ranks on this host over PMIx. It listens for them. When the first one connects, it starts
// muster-pmix (helper/). It hands each connection over, and carries everything that spans hosts.
//
// A job that uses no PMIx costs only a listening socket and some variables.
//
// Owner: the job's session. The arguments outlive this object.
// Thread: the loop thread only.
// When this object is destroyed, the helper ends, too.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/pmix/helper_process.h"
#include "agent/pmix/messages.h"
#include "agent/pmix/names.h"
#include "agent/process/message_socket.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/gate.h"
#include "base/loop.h"
#include "base/status.h"
#include "rendezvous/checked_listener.h"
#include "rendezvous/host_fence.h"

namespace muster::agent::pmix {

struct ServiceJob {
  std::string nspace;       // the name of this start of the job; unique among all jobs on its hosts, past ones included
  std::string session_dir;  // the job's directory on this host; it is removed with its content
  Placement placement;
  int host = 0;             // the index of this host in `placement`
  bool is_crowded = false;  // more ranks than processors
  bool has_rdma = false;    // this host has RDMA
  bool verbose = false;     // libpmix's own messages go to our stderr
};

struct ServiceEvents {
  std::function<void(int rank)> on_connected;
  std::function<void(int rank)> on_finalized;
  std::function<void(int rank, int code)> on_aborted;
  // A rank of this host asks for a spawn. spawn_done() answers it.
  std::function<void(const SpawnWanted& wanted)> on_spawn;
  // Answers add_world(). `error` is a sentence without the host's name, or empty.
  std::function<void(int first, const std::string& error)> on_world_added;
  // Text for the rank's stderr; ends with a newline.
  std::function<void(int rank, const std::string& text)> on_text;
  std::function<void(const std::string& text)> on_problem;  // a sentence without the host's name
  // Called after on_problem: `ranks` had connected and would wait for ever, or others would wait for them. `why` is a
  // sentence about the host, without its name.
  std::function<void(const std::vector<int>& ranks, const std::string& why)> on_lost;
};

class Service {
 public:
  // Starts to listen.
  static base::Result<std::unique_ptr<Service>> open(base::Loop& loop, rendezvous::HorovodKeys& keys, ServiceJob job,
                                                     ServiceEvents events);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Completes a rank's environment. Removes what another launcher set for its own ranks.
  void set_variables(int rank, base::Environment& environment);
  // Adds ranks that a rank of the job has spawned. For each of them on this host, call set_variables() afterwards.
  // The service calls on_world_added() after this call has returned.
  // In all calls and events, ranks are job-wide numbers.
  void add_world(const AddWorld& world);
  // Answers an on_spawn(). If `nspace` is empty, the rank gets an error. Other ranks of its world would then
  // wait for ever, so the job ends if there are any.
  void spawn_done(const SpawnWanted& wanted, const std::string& nspace);
  // True if no other rank shares the MPI_COMM_WORLD of `rank`.
  bool is_alone(int rank) const;
  // Returns when the rank has entered the fence in which it waits. Known only once all ranks of this host that take
  // part have entered. nullopt if it waits in none.
  std::optional<base::MonotonicTime> waits_since(int rank) const;
  // Returns the helper's pid, or 0. The helper is a child of the agent and not of the job.
  pid_t pid() const { return helper_.pid(); }
  // Reads what the helper has sent so far. Call it before an ended rank is judged.
  void catch_up();

 private:
  Service(base::Loop& loop, rendezvous::HorovodKeys& keys, ServiceJob job, ServiceEvents events);
  base::Status listen();
  void accepted(base::UniqueFd rank);
  base::Status start_helper();
  void follow_requests();
  void send(const Command& command, std::vector<base::UniqueFd> fds = {});
  void flush();
  void readable();
  void lost(const base::Status& why);
  void fail(const std::string& sentence);

  void on(const Ready& ready);
  void on(const RankConnected& connected);
  void on(const RankFinalized& finalized);
  void on(const RankAborted& aborted);
  void on(const FenceEntered& entered);
  void on(const RankDataWanted& wanted);
  void on(const RankData& data);
  void on(const RankText& text);
  void on(const SpawnWanted& wanted);
  void on(const WorldAdded& added);
  void on(const NamePublish& asked);
  void on(const NameLookUp& asked);
  void on(const NameUnpublish& asked);

  struct OpenFence {
    std::vector<int> ranks;  // of this host
    base::MonotonicTime since;
  };

  bool is_of_this_host(int rank) const;
  const AddWorld* world_of(int rank) const;  // null if the rank was not spawned
  void follow_requests_of(int rank);
  std::vector<int> open_ranks() const;
  void publish(int rank, std::string value);
  void found(std::uint64_t id, const base::Result<rendezvous::HorovodValue>& value);
  void enter_next(const std::string& name);

  base::Loop& loop_;
  rendezvous::HorovodKeys& keys_;
  const ServiceJob job_;
  const ServiceEvents events_;
  const std::string directory_;
  std::string shared_memory_;  // empty if we have no directory for it
  base::Status shared_memory_made_;
  rendezvous::HostFence fence_;
  Names names_;
  std::vector<AddWorld> worlds_;
  std::set<int> own_;  // ranks of this host
  std::uint16_t port_ = 0;
  std::vector<std::string> environment_;  // the environment of one of the ranks, with which the helper is started
  std::unique_ptr<rendezvous::CheckedListener> listener_;
  HelperProcess helper_;
  std::optional<MessageSocket> socket_;
  base::Timer watch_;
  base::Timer writable_;
  base::Timer ending_;
  bool has_failed_ = false;
  std::map<int, bool> is_open_;  // ranks that have connected; false if they have also finalized
  std::map<std::string, std::deque<FenceEntered>> fences_;  // by name; only the first of each queue is entered
  std::map<std::uint64_t, OpenFence> open_fences_;          // by id
  std::vector<rendezvous::HorovodKeys::WaitId> waits_;
  base::Gate gate_;
};

}  // namespace muster::agent::pmix
