// PMIx for a job's ranks on this host. It makes a pmix::Service from the launcher's World, and passes on what ranks
// report there. Without a World there is no service.
//
// Owner: the job's session.
// Thread: the loop thread only.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "agent/job/awaited.h"
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
    std::function<pid_t(int rank)> pid_of;                    // returns 0 if the rank does not run
    std::function<void(v1::SpawnRequest request)> on_spawn;   // answered by spawn_answered()
    std::function<void(v1::WorldAdded added)> on_world_added;
    // The service is lost, and ranks that are in MPI would wait for ever. `why` is a sentence about this host,
    // without its name.
    std::function<void(const std::string& why)> on_lost;
  };

  RankPmix(base::Loop& loop, MpiEnds& ends, Events events) : loop_(loop), ends_(ends), events_(std::move(events)) {}

  // Errors: a host that cannot serve PMIx reports a problem. Programs other than Open MPI's still run.
  void open(const v1::Launch& launch, rendezvous::HorovodKeys* keys, const std::string& session_dir, bool verbose);
  // Completes the environment of one of the launch's ranks. Call it before the rank is put into a container.
  void plan(SpawnRequest& request);
  // Call it before the new world's ranks are planned. on_world_added() is called after this call has returned.
  void add_world(const v1::AddWorld& world);
  void spawn_answered(const v1::SpawnAnswer& answer);
  // Call it after a rank has been reaped. Reads what the rank sent before its end.
  void catch_up() {
    if (service_) service_->catch_up();
  }
  std::optional<Awaited> awaited(int rank) const;
  // Call it with the last stderr lines of a rank that ended. If the rank is a program of Open MPI that lacks libpmix,
  // reports that, but only once.
  void explain(int rank, const std::string& stderr_tail);
  // Returns the pid of the helper, a child of the agent that does not belong to the job. 0 if there is no helper.
  pid_t helper() const { return service_ ? service_->pid() : 0; }
  // Returns the names of the variables that plan() has set for any rank.
  const std::set<std::string>& variable_names() const { return names_; }

 private:
  void write_to_stderr(int rank, const std::string& text);
  void spawn(const pmix::SpawnWanted& wanted);

  base::Loop& loop_;
  MpiEnds& ends_;
  const Events events_;
  bool is_of_mpi_ = false;  // the launcher asked for MPI
  std::unique_ptr<pmix::Service> service_;
  std::set<std::string> names_;
  std::string library_path_;  // the ranks' LD_LIBRARY_PATH
  std::set<int> connected_;
  std::map<std::uint64_t, pmix::SpawnWanted> spawns_;  // by id, those without an answer
  bool has_explained_ = false;
};

}  // namespace muster::agent::job
