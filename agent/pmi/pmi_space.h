// One host's copy of a job's PMI-1 key-value space. What its ranks put travels to the other hosts with the next
// barrier, as one blob a host; after a barrier every get is answered here.
//
// Plain values; one thread.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::agent::inline pmi {

// As the ranks are told: longer ones their client would cut.
inline constexpr std::size_t kMaxPmiName = 256;
inline constexpr std::size_t kMaxPmiKey = 64;
inline constexpr std::size_t kMaxPmiValue = 1024;

struct PmiSpaceLimits {
  std::size_t max_put_bytes = 6 << 20;                 // of this host between two barriers
  std::size_t max_total_bytes = std::size_t{1} << 30;  // of all hosts
};

class PmiSpace {
 public:
  explicit PmiSpace(PmiSpaceLimits limits = {}) : limits_(limits) {}

  // Known here at once, to the others after the barrier; overwrites. INVALID_ARGUMENT: empty or too long a key, or too
  // long a value. RESOURCE_EXHAUSTED: too much.
  base::Status put(std::string_view key, std::string_view value);
  // nullptr: not there. Valid until the next change.
  const std::string* get(std::string_view key) const;
  // Of what every host knows by itself.
  base::Status preset(std::string_view key, std::string_view value) { return store(key, value); }

  // What was put since the last time, for merge() on the other hosts.
  std::string take_blob();
  // INVALID_ARGUMENT: no blob; what came before the fault is there.
  base::Status merge(std::string_view blob);

 private:
  base::Status store(std::string_view key, std::string_view value);

  const PmiSpaceLimits limits_;
  std::map<std::string, std::string, std::less<>> values_;
  std::string put_;  // a blob
  std::size_t total_bytes_ = 0;
};

}  // namespace muster::agent::pmi
