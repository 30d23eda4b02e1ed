// Finds the ranks that come last to collective operations and heartbeats. Pure.
//
// It compares an operation once all ranks have reported it: which rank came last, and by how much it was later than the
// median of the ranks. A difference below the uncertainty of the clocks does not count.
//
// Memory: at most about 8 MiB of reports that are not complete, and 64 numbers for each rank that was late.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "model/job_event.h"
#include "proto/muster/v1/job.pb.h"

namespace muster::launcherd::inline run {

class Lateness {
 public:
  static constexpr std::int64_t kLeastNs = 200'000;  // smaller differences never count
  static constexpr std::size_t kShownRanks = 10;

  struct Arrival {
    int rank = 0;
    int world = 0;
    bool is_beat = false;
    std::uint64_t number = 0;
    std::int64_t ns = 0;              // on the launcher's clock
    std::int64_t uncertainty_ns = 0;  // of that clock's conversion
  };

  // The ranks' hosts, by rank. Forgets everything.
  void begin(std::vector<std::string> hosts);
  bool has_begun() const { return !hosts_.empty(); }
  // Returns whether an operation could be compared.
  bool add(const Arrival& arrival);

  // The ranks that were late in most operations, the latest first, at most kShownRanks. RankLateness.late is not 0.
  std::vector<v1::RankLateness> latest() const;
  // The host whose ranks came last in more than half of the compared operations, by more than 1 ms. nullopt if there is
  // none, if the job has one host, or if fewer than 10 operations were compared.
  std::optional<model::LateHost> late_host() const;

 private:
  struct Open {
    std::vector<std::int64_t> ns;  // by rank; kMissing if not reported
    std::size_t missing = 0;
    std::int64_t uncertainty_ns = 0;
  };
  struct Late {
    std::int64_t count = 0;
    std::deque<std::int64_t> newest_ns;  // by how much, at most kKept
  };
  using Key = std::tuple<int, bool, std::uint64_t>;  // world, is_beat, number

  static void count(Late& late, std::int64_t ns);
  void compare(const Open& open);
  Open& open_at(const Key& key);

  std::vector<std::string> hosts_;
  std::map<Key, Open> open_;
  std::int64_t operations_ = 0;
  std::map<int, Late> ranks_;
  std::map<std::string, Late> late_hosts_;
};

}  // namespace muster::launcherd::run
