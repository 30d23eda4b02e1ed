// Looks now and then at the processes of this host's ranks, and reports groups that have another size than the job
// (formed_world.h). It looks some seconds after the ranks have started, then at growing pauses, then no longer.
//
// Owner: SessionRanks.
// Thread: the loop thread only. A thread of its own reads /proc, because reading a process's environment waits for that
// process's memory lock. It starts with the first look.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/job/formed_world.h"
#include "base/disk_thread.h"
#include "base/loop.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

// One rank that runs.
struct WatchedRank {
  int rank = 0;
  pid_t pid = 0;
  int size = 0;              // of the job, as Muster gave it to the rank
  bool has_contact = false;  // the rank has called Muster's PMI or PMIx server
  bool has_pmi = false;      // Muster has given the rank a PMI socket
};

// Returns the wrong groups of these ranks, by rank. Blocks.
std::map<int, FormedGroup> look_at_worlds(const std::vector<WatchedRank>& ranks);

class WorldWatch {
 public:
  struct Events {
    std::function<std::vector<WatchedRank>()> ranks;  // those that run now
    std::function<void(v1::RankWorld)> send;
  };

  static constexpr std::chrono::milliseconds kFirstPause{5000};

  WorldWatch(base::Loop& loop, Events events, std::chrono::milliseconds first_pause = kFirstPause)
      : loop_(loop), events_(std::move(events)), first_pause_(first_pause) {}
  WorldWatch(const WorldWatch&) = delete;
  WorldWatch& operator=(const WorldWatch&) = delete;

  // Ranks start, or have new numbers. Begins again with the short pause.
  void begin();
  // No rank runs.
  void end() { timer_.cancel(); }

 private:
  void wait();
  void look();
  void report(const std::map<int, FormedGroup>& groups);

  base::Loop& loop_;
  const Events events_;
  const std::chrono::milliseconds first_pause_;
  std::chrono::milliseconds pause_{0};
  base::Timer timer_;
  std::map<int, FormedGroup> reported_;
  std::unique_ptr<base::DiskThread> thread_;
};

}  // namespace muster::agent::job
