#include "agent/stage/env_prefix.h"

#include <cctype>

namespace muster::agent::inline stage {
namespace {

// A path goes on with such a character. So "/a/env" is not in "/a/env-old" or in "/b/a/env".
bool is_part_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-' || c == '+' || c == '~';
}

bool stands_alone(std::string_view text, std::size_t at, std::size_t size) {
  const bool begins = at == 0 || !is_part_of_name(text[at - 1]);
  return begins && (at + size == text.size() || !is_part_of_name(text[at + size]));
}

void replace_all(std::string& text, const std::string& prefix, const std::string& home) {
  for (std::size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at)) {
    if (!stands_alone(text, at, prefix.size())) {
      ++at;
      continue;
    }
    text.replace(at, prefix.size(), home);
    at += home.size();
  }
}

}  // namespace

bool may_name_prefix(std::string_view path) {
  constexpr std::string_view kBin = "bin/";
  if (path.starts_with(kBin) && path.find('/', kBin.size()) == std::string_view::npos) return true;
  return path.ends_with(".pth") || path.ends_with("/kernel.json") || path.ends_with(".pc");
}

std::string with_prefix(std::string text, const std::vector<std::string>& prefixes, const std::string& home) {
  if (text.find('\0') != std::string::npos) return text;
  for (const std::string& prefix : prefixes) {
    if (!prefix.empty()) replace_all(text, prefix, home);
  }
  return text;
}

std::string moved_target(const std::string& target, const std::vector<std::string>& prefixes, const std::string& home) {
  for (const std::string& prefix : prefixes) {
    const bool is_within = target == prefix || target.starts_with(prefix + "/");
    if (!prefix.empty() && is_within) return home + target.substr(prefix.size());
  }
  return target;
}

}  // namespace muster::agent::stage
