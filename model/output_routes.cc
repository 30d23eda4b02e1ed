#include "model/output_routes.h"

#include <algorithm>

#include "base/strings.h"
#include "model/host_spec.h"

namespace muster::model {
namespace {

constexpr StreamSet kBoth = kStdout | kStderr;

}  // namespace

StreamSet StreamMap::of(int local_rank) const {
  const auto found = of_ranks.find(local_rank);
  return found == of_ranks.end() ? of_others : found->second;
}

bool StreamMap::is_empty() const {
  return of_others == 0 && std::ranges::all_of(of_ranks, [](const auto& entry) { return entry.second == 0; });
}

base::Result<StreamMap> parse_stream_map(std::string_view text) {
  StreamMap map;
  if (const auto all = base::parse_decimal(text, kBoth)) {
    map.of_others = static_cast<StreamSet>(*all);
    return map;
  }
  for (const std::string_view part : base::split(text, ',')) {
    const auto colon = std::min(part.find(':'), part.size());
    const auto rank = base::parse_decimal(part.substr(0, colon), kMaxSlotsPerHost);
    const auto streams = colon < part.size() ? base::parse_decimal(part.substr(colon + 1), kBoth) : std::nullopt;
    if (!rank || !streams) {
      return base::invalid_argument("must be a number from 0 to 3, or RANK:NUMBER,…, not '{}'", base::printable(text));
    }
    map.of_ranks[static_cast<int>(*rank)] = static_cast<StreamSet>(*streams);
  }
  return map;
}

base::Result<std::set<int>> parse_local_ranks(std::string_view text) {
  std::set<int> ranks;
  for (const std::string_view part : base::split(text, ',')) {
    const auto rank = base::parse_decimal(base::trim(part), kMaxSlotsPerHost);
    if (!rank) {
      return base::invalid_argument("must be local ranks, as 0,1, not '{}'", base::printable(text));
    }
    ranks.insert(static_cast<int>(*rank));
  }
  return ranks;
}

StreamSet OutputRoutes::console(int local_rank) const {
  if (shown_ranks && !shown_ranks->contains(local_rank)) return 0;
  return kBoth & ~hidden.of(local_rank);
}

}  // namespace muster::model
