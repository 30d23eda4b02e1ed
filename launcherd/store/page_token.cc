#include "launcherd/store/page_token.h"

#include <limits>

#include "base/strings.h"

namespace muster::launcherd::inline store {
namespace {

constexpr std::string_view kBelow = "below-";
constexpr std::string_view kFrom = "from-";

// `first` is the result for the first page.
base::Result<std::int64_t> parse(std::string_view token, std::string_view prefix, std::int64_t first) {
  if (token.empty()) return first;
  if (token.starts_with(prefix)) {
    const auto number = base::parse_decimal(token.substr(prefix.size()), std::numeric_limits<std::int64_t>::max());
    if (number && *number > 0 && fmt::format("{}{}", prefix, *number) == token) return *number;
  }
  return base::invalid_argument("'{}' is not a page token of this list: use the one that the previous page returned",
                                base::printable(token.substr(0, 64)));
}

}  // namespace

std::string page_token(std::int64_t number) {
  return fmt::format("{}{}", kBelow, number);
}

base::Result<std::int64_t> parse_page_token(std::string_view token) {
  return parse(token, kBelow, std::numeric_limits<std::int64_t>::max());
}

std::string offset_token(std::int64_t count) {
  return fmt::format("{}{}", kFrom, count);
}

base::Result<std::int64_t> parse_offset_token(std::string_view token) {
  return parse(token, kFrom, 0);
}

}  // namespace muster::launcherd::store
