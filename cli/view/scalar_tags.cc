#include "cli/view/scalar_tags.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::cli::inline view {
namespace {

std::string host_in_tag(std::string_view host) {
  return base::printable(base::valid_utf8(host));
}

}  // namespace

std::string host_tag(std::string_view what, std::string_view host) {
  return fmt::format("hosts_{}/{}", what, host_in_tag(host));
}

void add_scores(const std::vector<v1::RankLateness>& late, std::vector<TensorboardValue>& to) {
  std::map<std::string, double> hosts;
  for (const v1::RankLateness& rank : late) {
    to.push_back({fmt::format("straggler_score/rank_{}", rank.rank()), rank.score()});
    hosts.try_emplace(rank.host(), 1.0).first->second -= 1 - rank.score();
  }
  for (const auto& [host, score] : hosts) {
    to.push_back({fmt::format("straggler_score/host_{}", host_in_tag(host)), std::max(score, 0.0)});
  }
}

}  // namespace muster::cli::view
