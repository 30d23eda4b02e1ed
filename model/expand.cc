#include "model/expand.h"

#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace muster::model {
namespace {

std::optional<std::string> value_of(std::string_view name, const ExpandValues& values) {
  const std::array<std::pair<std::string_view, int>, 6> numbers = {{{"rank", values.rank},
                                                                    {"local_rank", values.local_rank},
                                                                    {"node_rank", values.node_rank},
                                                                    {"nnodes", values.nnodes},
                                                                    {"size", values.size},
                                                                    {"master_port", values.master_port}}};
  for (const auto& [known, number] : numbers) {
    if (name == known) return fmt::format("{}", number);
  }
  if (name == "host") return values.host;
  if (name == "master_addr") return values.master_addr;
  return std::nullopt;
}

// Returns the name in braces at the start of `text`: "rank" for "{rank}…".
std::string_view name_at(std::string_view text) {
  constexpr std::size_t kLongest = 16;  // no name is longer, so a word full of braces is not searched to its end
  const auto close = text.substr(0, kLongest).find('}');
  return text.starts_with('{') && close != std::string_view::npos ? text.substr(1, close - 1) : std::string_view();
}

}  // namespace

std::string expand(std::string_view word, const ExpandValues& values) {
  std::string result;
  while (!word.empty()) {
    if (const std::string_view quoted = name_at(word.substr(1));
        word.front() == '{' && value_of(quoted, values) && word.substr(quoted.size() + 3).starts_with('}')) {
      result += fmt::format("{{{}}}", quoted);
      word.remove_prefix(quoted.size() + 4);
    } else if (const std::string_view name = name_at(word); const auto value = value_of(name, values)) {
      result += *value;
      word.remove_prefix(name.size() + 2);
    } else {
      result += word.front();
      word.remove_prefix(1);
    }
  }
  return result;
}

}  // namespace muster::model
