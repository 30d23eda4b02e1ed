// The worlds of ranks that ranks of the job spawn (MPI_Comm_spawn), each from the request to its answer.
//
// The launcher answers a request when all hosts know the world and all its ranks have started. Until then it holds back
// the ends of these ranks. A world that fails to start does not affect the job's outcome.
//
// Owner: JobRunner's core.
// Thread: loop thread only. Callbacks must not destroy this object.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "launcherd/run/host_roster.h"
#include "model/exit_report.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline run {

struct SpawnedWorld {
  enum class Phase { kStarting, kRunning, kFailed };
  int agent = 0;  // the agent of the rank that spawned this world
  std::uint64_t request = 0;
  std::string name{};
  int first = 0;  // the number of this world's rank 0
  int size = 0;
  Phase phase = Phase::kStarting;
  std::set<int> unstarted{};           // ranks of this world that have not started
  std::set<int> unanswered{};          // agents that have not sent WorldAdded
  std::vector<model::RankEnd> ends{};  // ends that arrived while the world was starting

  bool has(int rank) const { return rank >= first && rank < first + size; }
};

class SpawnedWorlds {
 public:
  struct Events {
    std::function<void(int agent, v1::LauncherMessage message)> send;
    std::function<void(int agent, const std::vector<int>& ranks)> expect_output;
    std::function<void(int count)> add_ranks;         // a world is up: its ranks belong to the job
    std::function<void(model::RankEnd end)> add_end;  // a rank had ended before its world was up
  };

  // `hosts` is borrowed. `first_number` is the number of the first spawned rank.
  SpawnedWorlds(HostRoster& hosts, int first_number, Events events);

  int next_number() const { return next_number_; }
  // Call it before the first spawn, if the job starts with another number of ranks.
  void set_first_number(int first) { next_number_ = first; }
  // Sends the world to every host with running ranks, because its ranks may communicate with the new ranks. Hosts whose
  // ranks have ended do not get it. `messages` has the order of the job's hosts.
  void begin(SpawnedWorld world, std::vector<v1::AddWorld> messages);
  void refuse(int agent, std::uint64_t request, const std::string& why);

  // Call these two functions when the agents' messages arrive.
  void added(const JobHost& host, const v1::WorldAdded& added);
  void started(int rank);
  // Returns true if the end belongs to a world that is not up. The end then does not count for the job.
  bool keep_end(const model::RankEnd& end);
  // Call this when the host is lost or has left the job: its ranks will no longer start or report their ends.
  void host_left(const JobHost& host);

  // Returns true if the rank belongs to a world that has failed to start.
  bool has_failed(int rank) const;

 private:
  SpawnedWorld* world_of(int rank);  // nullptr if the job was started with that rank
  void fail(SpawnedWorld& world, const std::string& why);
  void settle(SpawnedWorld& world);

  HostRoster& hosts_;
  int next_number_;
  const Events events_;
  std::deque<SpawnedWorld> worlds_;
};

}  // namespace muster::launcherd::run
