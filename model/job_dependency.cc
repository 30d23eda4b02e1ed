#include "model/job_dependency.h"

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::model {

Dependency judge(AfterEnd condition, JobState awaited) {
  if (!is_final(awaited)) return Dependency::kWaits;
  return condition == AfterEnd::kAny || awaited == JobState::kSucceeded ? Dependency::kMet : Dependency::kNever;
}

std::string describe(const JobDependency& dependency) {
  return fmt::format("the {} of job {}", dependency.condition == AfterEnd::kAny ? "end" : "success",
                     dependency.job.str());
}

base::Result<DependencyWords> parse_dependency(std::string_view text) {
  constexpr std::size_t kShownOfWord = 64;
  const std::size_t colon = text.rfind(':');
  const std::string_view job = text.substr(0, colon);
  if (job.empty()) {
    return base::invalid_argument("must be JOB, JOB:ok or JOB:any, not '{}'",
                                  base::printable(text.substr(0, kShownOfWord)));
  }
  DependencyWords words{.job = std::string(job)};
  if (colon == std::string_view::npos) return words;
  const std::string_view condition = text.substr(colon + 1);
  if (condition == "any") words.condition = AfterEnd::kAny;
  if (condition == "any" || condition == "ok") return words;
  return base::invalid_argument("unknown condition '{}' after '{}'; use ok or any",
                                base::printable(condition.substr(0, kShownOfWord)),
                                base::printable(job.substr(0, kShownOfWord)));
}

}  // namespace muster::model
