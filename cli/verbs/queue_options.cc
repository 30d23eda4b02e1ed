#include "cli/verbs/queue_options.h"

#include <charconv>
#include <utility>

#include "base/strings.h"
#include "cli/options/setting_reader.h"
#include "cli/verbs/logs_request.h"
#include "cli/view/local_time.h"
#include "model/job_array.h"
#include "model/job_dependency.h"

namespace muster::cli::inline verbs {

base::Result<int> read_priority(const Setting& setting) {
  int priority = 0;
  const char* const end = setting.value.data() + setting.value.size();
  const auto [rest, problem] = std::from_chars(setting.value.data(), end, priority);
  if (problem == std::errc() && rest == end) return priority;
  return base::invalid_argument("{} must be a whole number, not '{}'", setting.label, base::printable(setting.value));
}

base::Result<google::protobuf::Timestamp> read_deadline(const Setting& setting, base::WallTime now) {
  const auto ahead = parse_duration(setting.value);
  const auto at = ahead.ok() ? base::Result<base::WallTime>(now + *ahead) : parse_time(setting.value);
  if (!at.ok()) {
    return base::invalid_argument("{}: '{}' is no time: write how long from now, as 2h, or 2026-06-20T17:05:53Z",
                                  setting.label, base::printable(setting.value));
  }
  google::protobuf::Timestamp deadline;
  set_timestamp(*at, deadline);
  return deadline;
}

base::Result<v1::JobDependency> read_after(const Setting& setting) {
  auto words = model::parse_dependency(setting.value);
  if (!words.ok()) return base::invalid_argument("{}: {}", setting.label, words.status().message());
  v1::JobDependency dependency;
  dependency.set_job(std::move(words->job));
  dependency.set_condition(static_cast<v1::DependencyCondition>(words->condition));  // the numbers are the same
  return dependency;
}

base::Result<v1::ArraySpec> read_array(const Setting& setting) {
  const auto array = model::parse_array(setting.value);
  if (!array.ok()) return base::invalid_argument("{}: {}", setting.label, array.status().message());
  v1::ArraySpec spec;
  for (const model::IndexRange& range : array->elements) {
    v1::IndexRange& to = *spec.add_elements();
    to.set_first(range.first);
    to.set_last(range.last);
  }
  spec.set_most_at_once(array->most_at_once);
  return spec;
}

FlagRow priority_row(std::string_view help) {
  return option("priority", {"--priority"}, "P", help).command_line_only();
}

FlagRow deadline_row(std::string_view help) {
  return option("deadline", {"--deadline"}, "TIME", help).command_line_only();
}

FlagRow after_row(std::string_view help) {
  return option("after", {"--after"}, "JOB[:CONDITION]", help)
      .repeats(Repeat::kAddsUp)
      .completes(Completes::kAnyJob)
      .command_line_only();
}

}  // namespace muster::cli::verbs
