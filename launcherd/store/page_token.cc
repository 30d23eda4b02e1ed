#include "launcherd/store/page_token.h"

#include <limits>

#include "base/strings.h"

namespace muster::launcherd::inline store {
namespace {

constexpr std::string_view kPrefix = "below-";

}  // namespace

std::string page_token(std::int64_t number) {
  return fmt::format("{}{}", kPrefix, number);
}

base::Result<std::int64_t> parse_page_token(std::string_view token) {
  if (token.empty()) return std::numeric_limits<std::int64_t>::max();
  if (token.starts_with(kPrefix)) {
    const auto number = base::parse_decimal(token.substr(kPrefix.size()), std::numeric_limits<std::int64_t>::max());
    if (number && *number > 0 && page_token(*number) == token) return *number;
  }
  return base::invalid_argument("'{}' is not a page token of this list: use the one that the previous page returned",
                                base::printable(token.substr(0, 64)));
}

}  // namespace muster::launcherd::store
