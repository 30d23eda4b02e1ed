#include "agent/job/collective_report.h"

#include "base/strings.h"

namespace muster::agent::inline job {
namespace {

constexpr std::string_view kScope = "muster.elastic";
constexpr std::string_view kKey = "first_collective";
constexpr int kHighestGeneration = 1 << 30;

}  // namespace

void CollectiveReport::put(std::string_view scope, std::string_view key, rendezvous::HorovodValue value, Done done) {
  if (scope != kScope || key != kKey) return keys_.put(scope, key, std::move(value), std::move(done));
  const auto number = base::parse_decimal(*value, kHighestGeneration);
  if (!number || *number == 0) {
    return done(base::invalid_argument("/{}/{} needs the number of a generation after the first", kScope, kKey));
  }
  const auto generation = static_cast<int>(*number);
  const std::optional<int> present = keys_.generation();
  if (present && generation != *present) {
    return done(
        base::invalid_argument("/{}/{}: the present generation is {}, not {}", kScope, kKey, *present, generation));
  }
  // The processes of a job whose ranks are fixed belong to one generation.
  const bool is_first = !reported_ || (present && *reported_ != generation);
  if (is_first) {
    reported_ = generation;
    on_first_(generation);
  }
  done(base::ok_status());
}

}  // namespace muster::agent::job
