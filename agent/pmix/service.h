// Open MPI's ranks of one job on this host, served over PMIx: listens for them, and when the first one comes starts
// muster-pmix (helper/), hands each connection over, and carries what spans hosts.
//
// A job that uses no PMIx has a listening socket and some variables of it, and that is all. Loop thread only; owned by
// the job's session; what it is given outlives it. Its end is the helper's.
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
#include "base/env.h"
#include "base/loop.h"
#include "base/status.h"
#include "rendezvous/checked_listener.h"
#include "rendezvous/host_fence.h"

namespace muster::agent::pmix {

struct ServiceJob {
  std::string nspace;       // of this start of the job; no other job on any of its hosts has or had it
  std::string session_dir;  // of the job here; what is left in it goes with it
  Placement placement;
  int host = 0;             // this one's index in it
  bool is_crowded = false;  // more ranks than processors
  bool has_rdma = false;    // this host
  bool verbose = false;     // libpmix's own remarks go to our stderr
};

struct ServiceEvents {
  std::function<void(int rank)> on_connected;
  std::function<void(int rank)> on_finalized;
  std::function<void(int rank, int code)> on_aborted;
  std::function<void(const SpawnWanted& wanted)> on_spawn;  // of a rank of this host; answered by spawn_done()
  // To add_world(); `error`: a sentence without the host's name, or empty.
  std::function<void(int first, const std::string& error)> on_world_added;
  std::function<void(int rank, const std::string& text)> on_text;  // for its stderr; ends with a newline
  std::function<void(const std::string& text)> on_problem;         // a sentence without the host's name
  // After a problem: these ranks, which had connected, would wait for ever, or others for them. `why`: a sentence about
  // the host, without its name.
  std::function<void(const std::vector<int>& ranks, const std::string& why)> on_lost;
};

class Service {
 public:
  // Listens.
  static base::Result<std::unique_ptr<Service>> open(base::Loop& loop, rendezvous::HorovodKeys& keys, ServiceJob job,
                                                     ServiceEvents events);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Completes a rank's environment, and takes out of it what another launcher has said to its own ranks.
  void set_variables(int rank, base::Environment& environment);
  // Ranks that a rank of the job has spawned, before set_variables() for those of this host: the ranks of the job in
  // all calls and events are numbers of the job. on_world_added() follows, not from within the call.
  void add_world(const AddWorld& world);
  // The answer to an on_spawn(). Its rank gets an error for an empty `nspace`; ranks that wait with it would wait for
  // ever, so the job ends where there are any.
  void spawn_done(const SpawnWanted& wanted, const std::string& nspace);
  // Nobody shares its MPI_COMM_WORLD.
  bool is_alone(int rank) const;
  // Of the helper, or 0: a child of the agent that is not of the job.
  pid_t pid() const { return helper_.pid(); }
  // Reads what the helper has said so far: before a rank that has ended is judged.
  void catch_up();

 private:
  Service(base::Loop& loop, rendezvous::HorovodKeys& keys, ServiceJob job, ServiceEvents events);
  base::Status listen();
  void accepted(base::UniqueFd rank);
  base::Status start_helper();
  void follow_wishes();
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

  bool is_of_this_host(int rank) const;
  const AddWorld* world_of(int rank) const;  // null: it was not spawned
  void follow_wishes_of(int rank);
  std::vector<int> open_ranks() const;
  void publish(int rank, std::string value);
  void found(std::uint64_t id, const base::Result<rendezvous::HorovodValue>& value);
  void enter_next(const std::string& name);

  base::Loop& loop_;
  rendezvous::HorovodKeys& keys_;
  const ServiceJob job_;
  const ServiceEvents events_;
  const std::string directory_;
  std::string shared_memory_;  // empty: none of ours
  base::Status shared_memory_made_;
  rendezvous::HostFence fence_;
  Names names_;
  std::vector<AddWorld> worlds_;
  std::set<int> own_;  // the ranks of this host
  std::uint16_t port_ = 0;
  std::vector<std::string> environment_;  // of some rank, for the helper
  std::unique_ptr<rendezvous::CheckedListener> listener_;
  HelperProcess helper_;
  std::optional<MessageSocket> socket_;
  base::Timer watch_;
  base::Timer writable_;
  base::Timer ending_;
  bool has_failed_ = false;
  std::map<int, bool> is_open_;                             // ranks that have connected; false: and finalized
  std::map<std::string, std::deque<FenceEntered>> fences_;  // by name, the first one is entered
  std::vector<rendezvous::HorovodKeys::WaitId> waits_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace muster::agent::pmix
