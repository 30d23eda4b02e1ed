#include "agent/probe/mounts.h"

#include "base/strings.h"

namespace muster::agent::inline probe {
namespace {

bool is_octal(char c) {
  return c >= '0' && c <= '7';
}

// Decodes blanks, tabs and backslashes, which are written as \040 and the like.
std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
                           is_octal(text[i + 3]);
    if (!is_escape) {
      plain += text[i];
      continue;
    }
    plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
    i += 3;
  }
  return plain;
}

bool is_below(std::string_view path, std::string_view point) {
  if (point == "/") return path.starts_with('/');
  return path.starts_with(point) && (path.size() == point.size() || path[point.size()] == '/');
}

}  // namespace

std::string file_system_of(std::string_view mounts, std::string_view path) {
  std::string type;
  std::size_t longest = 0;
  for (const std::string_view line : base::split(mounts, '\n')) {
    const auto fields = base::split(line, ' ');
    if (fields.size() < 3) continue;
    const std::string point = unescape(fields[1]);
    if (point.empty() || point.size() < longest || !is_below(path, point)) continue;
    longest = point.size();
    type = fields[2];
  }
  return type;
}

}  // namespace muster::agent::probe
