// Reads the status pages of this host's ranks every two seconds, and reports when ranks came to operations and
// heartbeats that it has not reported yet. While no process has a page, it looks less and less often.
//
// Owner: SessionRanks.
// Thread: the loop thread only. The pages are small files of the session's directory.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "agent/job/rank_status.h"
#include "base/loop.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

// Selects what is new. Pure.
class NewArrivals {
 public:
  // `size` is the job's. Operations of worlds of another size are left out. nullopt if nothing is new.
  std::optional<v1::ArrivalTimes> select(const std::vector<RankStatus>& statuses, int size);

 private:
  // By rank, world and kind: the time of the newest arrival that was reported.
  std::map<std::tuple<int, int, base::SampleKind>, std::int64_t> reported_;
};

class ArrivalReport {
 public:
  static constexpr std::chrono::milliseconds kPeriod{2000};

  ArrivalReport(base::Loop& loop, std::function<void(v1::ArrivalTimes)> send) : loop_(loop), send_(std::move(send)) {}
  ArrivalReport(const ArrivalReport&) = delete;
  ArrivalReport& operator=(const ArrivalReport&) = delete;

  // Ranks of a job of `size` ranks start, or their numbers change.
  void begin(const std::string& session_directory, int size);
  // No rank runs.
  void end() { timer_.cancel(); }

 private:
  void look();

  base::Loop& loop_;
  const std::function<void(v1::ArrivalTimes)> send_;
  std::string directory_;
  int size_ = 0;
  std::chrono::milliseconds pause_{kPeriod};
  NewArrivals new_;
  base::Timer timer_;
};

}  // namespace muster::agent::job
