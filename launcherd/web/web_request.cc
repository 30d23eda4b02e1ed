#include "launcherd/web/web_request.h"

#include <algorithm>
#include <array>

#include "base/percent.h"
#include "base/strings.h"

namespace muster::launcherd::inline web {
namespace {

constexpr std::size_t kMostParts = 16;

// Decodes escapes. nullopt if one is malformed or a control character appears.
std::optional<std::string> decode(std::string_view text) {
  auto decoded = base::decode_percent(text);
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; };
  return decoded && std::ranges::none_of(*decoded, is_control) ? decoded : std::nullopt;
}

bool read_query(std::string_view text, std::map<std::string, std::string>& into) {
  const auto parts = base::split(text, '&');
  if (parts.size() > kMostParts) return false;
  for (const std::string_view part : parts) {
    if (part.empty()) continue;
    const std::size_t equals = std::min(part.find('='), part.size());
    const auto name = decode(part.substr(0, equals));
    const auto value = decode(equals == part.size() ? std::string_view() : part.substr(equals + 1));
    if (!name || !value) return false;
    into[*name] = *value;
  }
  return true;
}

}  // namespace

std::optional<WebTarget> parse_web_target(std::string_view target) {
  if (!target.starts_with('/')) return std::nullopt;
  WebTarget parsed;
  const std::size_t question = std::min(target.find('?'), target.size());
  const auto parts = base::split(target.substr(1, question - 1), '/');
  if (parts.size() > kMostParts) return std::nullopt;
  for (const std::string_view part : parts) {
    const auto word = decode(part);
    if (!word) return std::nullopt;
    if (!word->empty()) parsed.path.push_back(*word);
  }
  if (question < target.size() && !read_query(target.substr(question + 1), parsed.query)) return std::nullopt;
  return parsed;
}

bool is_local_host_header(std::string_view host) {
  constexpr auto kNames = std::to_array<std::string_view>({"localhost", "127.0.0.1", "[::1]"});
  return std::ranges::any_of(kNames, [&](std::string_view name) {
    if (!host.starts_with(name)) return false;
    const std::string_view rest = host.substr(name.size());
    return rest.empty() || (rest.front() == ':' && base::parse_decimal(rest.substr(1), 65'535).has_value());
  });
}

}  // namespace muster::launcherd::web
