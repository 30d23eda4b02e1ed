// One host's copy of a job's PMI-1 key-value space. Values that its ranks put travel to the other hosts at the next
// barrier, as one blob for each host. After a barrier, this copy answers every get.
//
// Thread: one. Plain values.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::agent::inline pmi {

// The limits that ranks learn. Their client would cut longer texts.
inline constexpr std::size_t kMaxPmiName = 256;
inline constexpr std::size_t kMaxPmiKey = 64;
inline constexpr std::size_t kMaxPmiValue = 1024;

struct PmiSpaceLimits {
  std::size_t max_put_bytes = 6 << 20;                 // limit for this host, between two barriers
  std::size_t max_total_bytes = std::size_t{1} << 30;  // limit for all hosts together
};

class PmiSpace {
 public:
  explicit PmiSpace(PmiSpaceLimits limits = {}) : limits_(limits) {}

  // Stores a value: visible here at once, on other hosts after the barrier. Overwrites. INVALID_ARGUMENT: the key is
  // empty or too long, or the value is too long. RESOURCE_EXHAUSTED: a limit is exceeded.
  base::Status put(std::string_view key, std::string_view value);
  // nullptr if the key is missing. Valid until the next change.
  const std::string* get(std::string_view key) const;
  // Stores a value that every host knows by itself, so that it does not travel.
  base::Status preset(std::string_view key, std::string_view value) { return store(key, value); }

  // Returns what was put since the last call, for merge() on the other hosts.
  std::string take_blob();
  // INVALID_ARGUMENT: the blob is malformed. Values before the fault are stored.
  base::Status merge(std::string_view blob);

 private:
  base::Status store(std::string_view key, std::string_view value);

  const PmiSpaceLimits limits_;
  std::map<std::string, std::string, std::less<>> values_;
  std::string put_;  // the next blob
  std::size_t total_bytes_ = 0;
};

}  // namespace muster::agent::pmi
