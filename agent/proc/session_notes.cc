#include "agent/proc/session_notes.h"

#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/file.h"
#include "base/strings.h"

namespace muster::agent::inline proc {
namespace {

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  const auto content = base::read_file(path);
  if (!content.ok()) return lines;
  for (const std::string_view line : base::split(*content, '\n')) {
    if (!line.empty()) lines.emplace_back(line);
  }
  return lines;
}

}  // namespace

std::vector<KnownRank> known_ranks(const std::string& session_path) {
  return known_processes(session_path, "ranks");
}

std::vector<KnownRank> known_processes(const std::string& session_path, const std::string& note) {
  std::vector<KnownRank> ranks;
  for (const std::string& line : lines_of(session_path + "/" + note)) {
    const auto words = base::split(line, ' ');
    if (words.size() != 2) continue;
    const auto pid = base::parse_decimal(words[0], 1L << 30);
    const auto start = base::parse_decimal(words[1], std::numeric_limits<long>::max());
    if (pid && start) ranks.push_back({static_cast<pid_t>(*pid), static_cast<std::uint64_t>(*start)});
  }
  return ranks;
}

std::vector<std::string> known_cgroups(const std::string& session_path) {
  const std::string name = "/muster-" + session_path.substr(session_path.rfind('/') + 1);
  std::vector<std::string> paths = lines_of(session_path + "/cgroup");
  std::erase_if(paths, [&name](const std::string& path) { return !path.ends_with(name); });
  return paths;
}

std::vector<std::string> known_worlds(const std::string& session_path) {
  return lines_of(session_path + "/" + kWorldNote);
}

std::vector<ProcessInfo> members_of_session(const std::vector<ProcessInfo>& table, const KnownRank& rank) {
  static const auto kSecond = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  std::vector<ProcessInfo> members;
  const auto leader = std::ranges::find(table, rank.pid, &ProcessInfo::pid);
  if (leader != table.end() && leader->start_time > rank.not_before + kSecond) return members;
  for (const ProcessInfo& info : table) {
    if (info.session == rank.pid && info.start_time >= rank.not_before) members.push_back(info);
  }
  return members;
}

}  // namespace muster::agent::proc
