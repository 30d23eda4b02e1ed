// Protects a job from a host list that is wrong for a moment.
//
// A host list counts only when it came `needed` times in a row. A single wrong answer of a discovery script would
// otherwise make workers leave (horovod#2484). A failed call of the script is no answer, so it changes nothing.
//
// Thread: any one.
#pragma once

#include <optional>
#include <vector>

#include "launcherd/elastic/elastic_plan.h"

namespace muster::launcherd::inline elastic {

class HostListFilter {
 public:
  explicit HostListFilter(int needed = 2) : needed_(needed) {}

  // Returns the list if the job must use it now: the first list at once, a later one once it is confirmed. nullopt if
  // the list is not confirmed yet, or is already in use.
  std::optional<std::vector<ElasticHost>> take(std::vector<ElasticHost> hosts);

 private:
  const int needed_;
  std::optional<std::vector<ElasticHost>> in_use_;
  std::vector<ElasticHost> candidate_;
  int seen_ = 0;  // how often `candidate_` came in a row
};

}  // namespace muster::launcherd::elastic
