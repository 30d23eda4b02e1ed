#include "cli/verbs/rank_word.h"

#include "base/strings.h"

namespace muster::cli::inline verbs {
namespace {

constexpr long kMostRanks = 1 << 24;

}  // namespace

base::Result<int> parse_rank(std::string_view word) {
  const auto number = base::parse_decimal(word, kMostRanks);
  if (!number) return base::invalid_argument("'{}' is not the number of a rank", base::printable(word));
  return static_cast<int>(*number);
}

base::Result<std::optional<int>> read_rank(const Settings& settings) {
  const Setting* const setting = settings.find("rank");
  if (setting == nullptr) return std::optional<int>();
  auto rank = parse_rank(setting->value);
  if (!rank.ok()) return rank.status().with_context("--rank");
  return std::optional<int>(*rank);
}

bool is_users_mistake(const base::Status& status) {
  return status.code() == base::Code::kInvalidArgument || status.code() == base::Code::kNotFound ||
         status.code() == base::Code::kFailedPrecondition;
}

}  // namespace muster::cli::verbs
