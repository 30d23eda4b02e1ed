// Computes how many steps a job makes in a second, from the agents' reports on its ranks (ArrivalTimes).
//
// A step is a heartbeat if a rank has sent one, else an operation of libmuster. The rate of the job is the median of
// its ranks'. Pure; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/clock.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::cli::inline view {

class StepMeter {
 public:
  void add(const v1::ArrivalTimes& times, base::MonotonicTime now);
  // Returns the rate since the last call. 0 if no rank has gone on since then. nullopt before two reports of one rank.
  std::optional<double> take_rate();

 private:
  struct Count {
    int world = -1;
    std::int64_t operations = 0;
    std::int64_t beats = 0;
    base::MonotonicTime at{};
  };
  struct Rank {
    Count before;  // at the last take_rate()
    Count now;
  };

  std::optional<double> rate_of(const Rank& rank) const;

  std::map<int, Rank> ranks_;
  bool has_beats_ = false;
  bool has_rate_ = false;
};

}  // namespace muster::cli::view
