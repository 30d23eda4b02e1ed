#include "agent/job/torch_errors.h"

#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "base/file.h"
#include "base/strings.h"
#include "model/rank_env.h"

namespace muster::agent::inline job {
namespace {

constexpr std::size_t kMaxTorchErrorBytes = 1u << 18;
constexpr std::size_t kMaxShownBytes = 400;

// Returns the position after `"message"` and its colon, searched from `at`. npos if the key is not there.
std::size_t find_message(std::string_view content, std::size_t at) {
  constexpr std::string_view kKey = "\"message\"";
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t key = content.find(kKey, at);
  if (key == std::string_view::npos) return key;
  const std::size_t colon = content.find_first_not_of(kBlanks, key + kKey.size());
  if (colon == std::string_view::npos || content[colon] != ':') return std::string_view::npos;
  return content.find_first_not_of(kBlanks, colon + 1);
}

// Returns the first line of the JSON string whose quote is at `at`. An escape \uXXXX becomes '?'.
std::optional<std::string> first_line(std::string_view content, std::size_t at) {
  std::string text;
  for (std::size_t i = at + 1; i < content.size(); ++i) {
    char c = content[i];
    if (c == '"') return text;
    if (c == '\\') {
      if (++i == content.size()) break;
      c = content[i];
      if (c == 'n' || c == 'r') return text;
      if (c == 't') c = ' ';
      if (c == 'u') {
        c = '?';
        i += 4;
      }
    }
    if (text.size() == kMaxShownBytes) return text + "...";
    text += c;
  }
  return std::nullopt;
}

}  // namespace

// The file looks like {"message": {"message": "RuntimeError: …", "extraInfo": {…}}}. A user's own handler may write a
// plain string instead of the inner object.
std::optional<std::string> parse_torch_error(std::string_view content) {
  std::size_t value = find_message(content, 0);
  if (value < content.size() && content[value] == '{') value = find_message(content, value);
  if (value >= content.size() || content[value] != '"') return std::nullopt;
  auto text = first_line(content, value);
  return text && !text->empty() ? text : std::nullopt;
}

TorchError TorchErrors::ended(const std::string& session_dir, const v1::RankExited& exited, int shown) {
  if (exited.wait_status() == 0 || exited.stopped_by_us()) return {};
  const std::string path = model::torch_error_file(session_dir, exited.rank());
  std::error_code ignored;  // on an error the file counts as missing
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(path, ignored))) return {};
  auto content = base::read_file(path, kMaxTorchErrorBytes);
  if (!content.ok()) return {};
  TorchError error{.line = {}, .content = std::move(content).value()};
  if (has_reported_) return error;
  const auto raised = parse_torch_error(error.content);
  if (!raised) return error;
  has_reported_ = true;
  error.line = fmt::format("rank {} raised {}", shown, base::printable(*raised));
  return error;
}

}  // namespace muster::agent::job
