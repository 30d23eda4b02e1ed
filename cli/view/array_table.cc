#include "cli/view/array_table.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/strings.h"
#include "cli/view/job_table.h"
#include "cli/view/short_rows.h"
#include "model/job_array.h"

namespace muster::cli::inline view {
namespace {

std::string text_of(const v1::ElementRange& range) {
  return range.first() == range.last() ? fmt::format("{}", range.first())
                                       : fmt::format("{}-{}", range.first(), range.last());
}

std::string state_of(const v1::ElementRange& range) {
  const std::string name = state_name(range.state());
  return range.exit_code() == 0 ? name : fmt::format("{} {}", name, range.exit_code());
}

}  // namespace

std::string describe_array(const v1::ArrayStatus& array) {
  model::ArraySpec spec{.elements = {}, .most_at_once = array.most_at_once()};
  for (const v1::IndexRange& range : array.elements()) spec.elements.push_back({range.first(), range.last()});
  std::vector<std::string> counts;
  const auto add = [&](std::int64_t count, std::string_view words) {
    if (count > 0) counts.push_back(fmt::format("{} {}", count, words));
  };
  add(array.running(), "run");
  add(array.waiting(), "wait");
  add(array.succeeded(), "succeeded");
  add(array.failed(), "failed");
  add(array.killed(), "killed");
  return model::format_array(spec) + (counts.empty() ? "" : ": " + base::join(counts, ", "));
}

std::string format_elements(const std::vector<v1::ElementRange>& ranges, bool is_cut) {
  std::size_t width = 8;
  for (const v1::ElementRange& range : ranges) width = std::max(width, text_of(range).size());
  std::string text = fmt::format("\n{:>{}}  state\n", "elements", width);
  for (const v1::ElementRange& range : ranges) {
    text += fmt::format("{:>{}}  {}\n", text_of(range), width, state_of(range));
  }
  return is_cut ? fmt::format("{}and more elements; {}\n", text, kAllListsThem) : text;
}

}  // namespace muster::cli::view
