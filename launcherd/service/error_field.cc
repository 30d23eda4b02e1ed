#include "launcherd/service/error_field.h"

#include <algorithm>

namespace muster::launcherd::inline service {

std::string_view field_of(std::string_view message) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_of_name = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '[' || c == ']';
  };
  const std::string_view name = message.substr(0, message.find(": "));
  const bool is_name =
      name.size() < message.size() && !name.empty() && is_letter(name.front()) && std::ranges::all_of(name, is_of_name);
  return is_name ? name : std::string_view();
}

}  // namespace muster::launcherd::service
