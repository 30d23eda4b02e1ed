#include "launcherd/elastic/host_list_filter.h"

#include <algorithm>
#include <utility>

namespace muster::launcherd::inline elastic {
namespace {

// Horovod reads the lines of a script as a set. So another order is the same list.
bool is_same_list(std::vector<ElasticHost> a, std::vector<ElasticHost> b) {
  const auto order = [](const ElasticHost& x, const ElasticHost& y) { return x.name < y.name; };
  std::ranges::stable_sort(a, order);
  std::ranges::stable_sort(b, order);
  return a == b;
}

}  // namespace

std::optional<std::vector<ElasticHost>> HostListFilter::take(std::vector<ElasticHost> hosts) {
  if (in_use_ && is_same_list(*in_use_, hosts)) {
    seen_ = 0;
    return std::nullopt;
  }
  if (in_use_) {
    seen_ = seen_ > 0 && is_same_list(candidate_, hosts) ? seen_ + 1 : 1;
    candidate_ = hosts;
    if (seen_ < needed_) return std::nullopt;
  }
  seen_ = 0;
  in_use_ = hosts;
  return hosts;
}

}  // namespace muster::launcherd::elastic
