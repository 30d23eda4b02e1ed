// Serves a job's ranks on this host while they run, by libmuster's socket, PMI-1, PMIx and PALS. It completes the
// ranks' start requests with the variables by which ranks find these servers, and it judges how ranks end.
//
// Owner: the job's session.
// Thread: the loop thread only.
// Errors: a server that cannot be opened is reported to the user. Programs that do not need it still run.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/job/mpi_ends.h"
#include "agent/job/rank_pals.h"
#include "agent/job/rank_pmi.h"
#include "agent/job/rank_pmix.h"
#include "agent/job/session_socket.h"
#include "agent/launch/spawn_request.h"
#include "agent/process/warden_events.h"
#include "base/loop.h"
#include "base/status.h"
#include "model/exit_report.h"
#include "proto/muster/v1/agent.pb.h"
#include "rendezvous/horovod_keys.h"

namespace muster::agent::inline job {

class RankServers {
 public:
  struct Events {
    std::function<void(v1::AgentMessage)> send;           // to the launcher
    std::function<void(const std::string&)> on_notice;    // a sentence for the user
    std::function<void(const base::Status&)> on_problem;  // for the log: one sentence
    std::function<pid_t(int rank)> pid_of;                // returns 0 if the rank does not run
    std::function<void(int rank)> kill;                   // the rank called MPI_Abort and still runs
    std::function<void(const std::string& why)> on_lost;  // see RankPmix::Events
  };

  // The facts about the session that the servers need. `keys` outlives the servers; nullptr if there are no keys.
  struct Session {
    const std::string& directory;
    const std::string& secret;
    rendezvous::HorovodKeys* keys;
    bool verbose;
  };

  RankServers(base::Loop& loop, Events events);
  RankServers(const RankServers&) = delete;
  RankServers& operator=(const RankServers&) = delete;

  // Call it before the ranks of `launch` are planned. An older launcher sends no secret. Its ranks then have no
  // socket, which most programs do not need.
  void open_socket(const v1::Launch& launch, const Session& session);
  // Opens the other servers and completes the requests, which rank_requests() made from `launch`.
  void open(const v1::Launch& launch, const Session& session, std::vector<SpawnRequest>& requests);
  // Does the same for a world of spawned ranks.
  void add_world(const v1::AddWorld& world, std::vector<SpawnRequest>& requests);
  void spawn_answered(const v1::SpawnAnswer& answer) { pmix_.spawn_answered(answer); }

  void started(RankStarted& started) { pmi_.started(started); }
  // True if ranks get a PMI socket.
  bool serves_pmi() const { return pmi_.is_served(); }
  // True if the rank has called MPI_Init, by PMI or PMIx.
  bool has_contact(int rank) const { return ends_.has_connected(rank); }
  // Completes the message about a rank that has been reaped. Uses what the rank reported before its end.
  void judge(v1::RankExited& exited);
  void stderr_arrived(int rank, const std::string& tail) { pmix_.explain(rank, tail); }
  // Call this when the job is being stopped. See MpiEnds.
  void stopping() { ends_.stopping(); }

  // These report to ranks with libmuster that a rank of this host has ended, or that ranks of other hosts have.
  void rank_ended(const model::RankEnd& end);
  void ranks_ended(const v1::RanksEnded& ended);
  // Begins a generation of a job whose ranks change: this host has these ranks now.
  void begin_generation(const std::vector<int>& ranks) { socket_.begin_generation(ranks); }
  void set_silent(std::set<int> ranks) { socket_.set_silent(std::move(ranks)); }

  // Returns what the servers have not answered to a rank of this host. In a job whose ranks change, `number` is that of
  // the process and `rank` that of the present generation.
  std::optional<Awaited> awaited(int number, int rank) const;

  // The pid of the PMIx helper, 0 if there is none.
  pid_t helper() const { return pmix_.helper(); }
  // Returns the names of the variables by which ranks find these servers.
  std::vector<std::string> variable_names() const;

 private:
  const Events events_;
  SessionSocket socket_;
  MpiEnds ends_;
  RankPals pals_;
  RankPmi pmi_;
  RankPmix pmix_;
};

}  // namespace muster::agent::job
