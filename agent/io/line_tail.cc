#include "agent/io/line_tail.h"

#include <algorithm>
#include <vector>

#include "base/strings.h"

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
  if (bytes.size() > max_bytes_) bytes.remove_prefix(bytes.size() - max_bytes_);
  if (recent_.size() + bytes.size() > 2 * max_bytes_) recent_.erase(0, recent_.size() + bytes.size() - max_bytes_);
  recent_.append(bytes);
}

std::string LineTail::text() const {
  std::string_view rest = recent_;
  if (rest.size() > max_bytes_) rest.remove_prefix(rest.size() - max_bytes_);
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

std::string LineTail::last_line() const {
  const std::string all = text();
  std::string_view rest = base::trim(all);
  rest = base::trim(rest.substr(rest.rfind('\n') + 1));  // npos + 1 is 0
  std::string line = base::valid_utf8(rest);
  std::size_t size = std::min(line.size(), kMaxLine);
  // Do not cut inside of a character.
  while (size > 0 && size < line.size() && (static_cast<unsigned char>(line[size]) & 0xC0) == 0x80) --size;
  line.resize(size);
  return line;
}

}  // namespace muster::agent::io
