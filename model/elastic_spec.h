// The limits of a job whose ranks change while it runs (Horovod Elastic), as the user gave them. Plain values.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

namespace muster::model {

struct ElasticSpec {
  int min_ranks = 1;                              // --min-np: with fewer slots the job waits
  std::optional<int> max_ranks{};                 // --max-np; nullopt means no limit
  std::optional<int> reset_limit{};               // --reset-limit; nullopt means no limit
  std::chrono::seconds elastic_timeout{600};      // --elastic-timeout: for each wait for slots
  std::optional<std::pair<int, int>> cooldown{};  // --blacklist-cooldown-range, in seconds; nullopt means for ever
};

}  // namespace muster::model
