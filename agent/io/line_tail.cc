#include "agent/io/line_tail.h"

#include <vector>

namespace muster::agent::inline io {
namespace {

// Returns what a terminal would show of the line: "20%" for "10%\r20%\r\n".
std::string_view visible(std::string_view line) {
  while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  const std::size_t bar = line.rfind('\r');
  return bar == std::string_view::npos ? line : line.substr(bar + 1);
}

}  // namespace

void LineTail::append(std::string_view bytes) {
  if (bytes.size() > kMaxBytes) bytes.remove_prefix(bytes.size() - kMaxBytes);
  if (recent_.size() + bytes.size() > 2 * kMaxBytes) recent_.erase(0, recent_.size() + bytes.size() - kMaxBytes);
  recent_.append(bytes);
}

std::string LineTail::text() const {
  std::string_view rest = recent_;
  if (rest.size() > kMaxBytes) rest.remove_prefix(rest.size() - kMaxBytes);
  std::vector<std::string_view> lines;  // newest first, without '\n'
  const bool has_final_newline = rest.ends_with('\n');
  if (has_final_newline) rest.remove_suffix(1);
  while (lines.size() < kMaxLines && (!rest.empty() || (lines.empty() && has_final_newline))) {
    const std::size_t newline = rest.rfind('\n');
    lines.push_back(visible(newline == std::string_view::npos ? rest : rest.substr(newline + 1)));
    if (newline == std::string_view::npos) break;
    rest = rest.substr(0, newline);
    if (rest.empty() && lines.size() < kMaxLines) lines.push_back({});
  }
  std::string text;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    text.append(*line);
    if (line + 1 != lines.rend() || has_final_newline) text.push_back('\n');
  }
  return text;
}

}  // namespace muster::agent::io
