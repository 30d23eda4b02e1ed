// PMIx for the ranks of a job on this host: what the launcher's World says becomes a pmix::Service, and what ranks say
// there goes where it belongs. A job whose launcher sends no World has none.
//
// Loop thread only; owned by the job's session.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "agent/job/mpi_ends.h"
#include "agent/launch/spawn_request.h"
#include "agent/pmix/service.h"
#include "base/loop.h"
#include "proto/muster/v1/agent.pb.h"
#include "rendezvous/horovod_keys.h"

namespace muster::agent::inline job {

class RankPmix {
 public:
  struct Events {
    std::function<void(const std::string& text)> on_problem;  // a sentence without the host's name
    std::function<pid_t(int rank)> pid_of;                    // 0: it does not run
    std::function<void(v1::SpawnRequest request)> on_spawn;   // answered by spawn_answered()
    std::function<void(v1::WorldAdded added)> on_world_added;
    // Ranks that are in MPI would wait for ever. A sentence about this host, without its name.
    std::function<void(const std::string& why)> on_lost;
  };

  RankPmix(base::Loop& loop, MpiEnds& ends, Events events) : loop_(loop), ends_(ends), events_(std::move(events)) {}

  // A host that cannot serve PMIx says so; programs other than Open MPI's run.
  void open(const v1::Launch& launch, rendezvous::HorovodKeys* keys, const std::string& session_dir, bool verbose);
  // Completes the environment of one of `launch`'s ranks; before it is put into a container.
  void plan(SpawnRequest& request);
  // Before its ranks are planned. on_world_added() follows, not from within the call.
  void add_world(const v1::AddWorld& world);
  void spawn_answered(const v1::SpawnAnswer& answer);
  // A rank has been reaped: reads what it has said before.
  void catch_up() {
    if (service_) service_->catch_up();
  }
  // How a rank that has failed ended, and its last words: perhaps it lacked what this host does not have.
  void explain(int rank, const std::string& stderr_tail);
  // A child of the agent that is not of the job, or 0.
  pid_t helper() const { return service_ ? service_->pid() : 0; }
  // Of the variables that plan() has set for some rank.
  const std::set<std::string>& variable_names() const { return names_; }

 private:
  void say(int rank, const std::string& text);
  void spawn(const pmix::SpawnWanted& wanted);

  base::Loop& loop_;
  MpiEnds& ends_;
  const Events events_;
  bool is_of_mpi_ = false;  // the launcher wants it served
  std::unique_ptr<pmix::Service> service_;
  std::set<std::string> names_;
  std::string library_path_;  // LD_LIBRARY_PATH of the ranks
  std::set<int> connected_;
  std::map<std::uint64_t, pmix::SpawnWanted> spawns_;  // not answered yet
  bool has_explained_ = false;
};

}  // namespace muster::agent::job
