#include "proto/join_file.h"

#include <algorithm>
#include <array>

#include "base/strings.h"

namespace muster::proto {
namespace {

constexpr std::string_view kFirstLine = "MUSTER-JOIN 1";
constexpr std::size_t kMaxAddresses = 16;
constexpr long kLatest = 9'000'000'000;  // in the year 2255; 64-bit clocks in nanoseconds end in 2262
constexpr std::array<std::string_view, 5> kVariables = {"HOME", "USER", "LOGNAME", "SHELL", "PATH"};

bool is_token(std::string_view text) {
  return text.size() == 64 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_identity(std::string_view text) {
  return !text.empty() && text.size() <= 128 && std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

bool read_address(std::string_view value, JoinFile& file) {
  const auto address = base::IpAddress::parse(value);
  if (!address.ok() || file.addresses.size() == kMaxAddresses) return false;
  file.addresses.push_back(*address);
  return true;
}

bool read_variable(std::string_view value, JoinFile& file) {
  const std::size_t equals = value.find('=');
  if (equals == std::string_view::npos || !is_join_variable(value.substr(0, equals))) return false;
  if (file.variables.size() == kVariables.size()) return false;
  file.variables.emplace_back(value.substr(0, equals), value.substr(equals + 1));
  return true;
}

bool read_line(std::string_view key, std::string_view value, JoinFile& file) {
  if (key == "address") return read_address(value, file);
  if (key == "variable") return read_variable(value, file);
  if (key == "port") {
    const auto port = base::parse_decimal(value, 65535);
    if (!port || *port == 0 || file.port != 0) return false;
    file.port = static_cast<std::uint16_t>(*port);
    return true;
  }
  if (key == "identity") {
    if (!is_identity(value) || !file.identity.empty()) return false;
    file.identity = value;
    return true;
  }
  if (key == "token") {
    if (!is_token(value) || !file.token.empty()) return false;
    file.token = value;
    return true;
  }
  if (key == "expires") {
    const auto seconds = base::parse_decimal(value, kLatest);
    if (!seconds || *seconds == 0 || file.expires != base::WallTime{}) return false;
    file.expires = base::WallTime(std::chrono::seconds(*seconds));
    return true;
  }
  if (key == "stays") {
    if (value != "yes" || file.stays) return false;
    file.stays = true;
    return true;
  }
  return false;
}

base::Status no_join_file(std::size_t line, std::string_view why) {
  return base::invalid_argument("not a join file of this version: line {} {}", line, why);
}

}  // namespace

bool is_join_variable(std::string_view name) {
  return std::ranges::find(kVariables, name) != kVariables.end();
}

std::string format_join_file(const JoinFile& file) {
  std::string text(kFirstLine);
  text += '\n';
  for (const base::IpAddress& address : file.addresses) text += "address " + address.str() + "\n";
  const auto seconds = std::chrono::floor<std::chrono::seconds>(file.expires.time_since_epoch()).count();
  text += fmt::format("port {}\nidentity {}\ntoken {}\nexpires {}\n", file.port, file.identity, file.token, seconds);
  if (file.stays) text += "stays yes\n";
  for (const auto& [name, value] : file.variables) text += fmt::format("variable {}={}\n", name, value);
  return text;
}

base::Result<JoinFile> parse_join_file(std::string_view text) {
  if (text.size() > kMaxJoinFile) {
    return base::invalid_argument("not a join file: it is larger than {} bytes", kMaxJoinFile);
  }
  if (!text.ends_with('\n')) return base::invalid_argument("not a join file: it has no last newline");
  text.remove_suffix(1);
  const auto lines = base::split(text, '\n');
  if (lines.empty() || lines.front() != kFirstLine) return no_join_file(1, "does not name the version");
  JoinFile file;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    const std::size_t blank = line.find(' ');
    const bool is_clean = line.find('\0') == std::string_view::npos && blank != std::string_view::npos;
    if (!is_clean || !read_line(line.substr(0, blank), line.substr(blank + 1), file)) {
      return no_join_file(i + 1, "is unknown");
    }
  }
  const bool is_whole = !file.addresses.empty() && file.port != 0 && !file.identity.empty() && !file.token.empty() &&
                        file.expires != base::WallTime{};
  if (!is_whole) return no_join_file(lines.size(), "is the last, but a value is missing");
  return file;
}

}  // namespace muster::proto
