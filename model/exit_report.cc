// How ranks end: the choice of the root cause, and the sentences for users and peers.
// Read RankEnd::status() and root_cause() first; the functions that describe ends follow.
#include "model/exit_report.h"

#include <string.h>  // NOLINT(modernize-deprecated-headers): sigdescr_np is not in <cstring>'s std

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/strings.h"
#include "model/exit_code.h"
#include "model/host_ranges.h"

namespace muster::model {
namespace {

// A crashing rank breaks its peers' connections. The agent may reap the peers' error exits a little before the crashed
// rank, because the kernel first writes the core file.
constexpr std::chrono::milliseconds kSignalPrecedence{50};

bool is_candidate(const RankEnd& end) {
  return end.failed() && end.kind != EndKind::kStopped;
}

bool is_before(const RankEnd& a, const RankEnd& b) {
  return std::pair(a.at, a.rank) < std::pair(b.at, b.rank);
}

// Returns the index of the first rank that asked not to start again. Its peers may fail a moment before or after it.
int asked_never_again(const std::vector<RankEnd>& ends) {
  int first = -1;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i].kind != EndKind::kExited || ends[i].exit_code != kNeverAgain) continue;
    if (first < 0 || is_before(ends[i], ends[static_cast<std::size_t>(first)])) first = static_cast<int>(i);
  }
  return first;
}

std::string describe_signal(int signal) {
  const char* name = ::sigdescr_np(signal);  // unlike strsignal(), it uses no locale and no shared buffer
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("signal {} ({})", signal, name);
}

// Returns text such as "signal 9 (SIGKILL)", as programmers know it.
std::string name_signal(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("signal {} (SIG{})", signal, name);
}

std::string describe_exit(const RankEnd& end) {
  if (end.abort_code) return describe_mpi(end);
  if (end.out_of_memory) {
    return fmt::format("out of memory: exit code {} after the kernel killed a process of it", end.exit_code);
  }
  if (end.without_finalize) return fmt::format("exit code {} without MPI_Finalize", end.exit_code);
  // In ends that launcherd has stored, `detail` holds the sentence about MPI.
  return end.detail.empty() ? fmt::format("exit code {}", end.exit_code)
                            : fmt::format("exit code {}: {}", end.exit_code, end.detail);
}

// Returns text such as "ended with exit code 1", the end of a sentence that begins with ranks.
std::string predicate(const RankEnd& end) {
  switch (end.kind) {
    case EndKind::kStartFailed:
      return end.detail.empty() ? "did not start" : "did not start: " + end.detail;
    case EndKind::kHostLost:
      return fmt::format("lost with host {}", end.host);
    case EndKind::kExited:
      if (end.abort_code) return describe(end);
      break;
    case EndKind::kSignalled:
      break;
    case EndKind::kStopped:
      if (!end.detail.empty()) return describe(end);
      break;
  }
  return end.out_of_memory ? describe(end) : "ended with " + describe(end);
}

bool is_same_start_failure(const RankEnd& end, const RankEnd& root) {
  return end.kind == EndKind::kStartFailed && root.kind == EndKind::kStartFailed && end.detail == root.detail;
}

}  // namespace

int abort_status(int code) {
  const int left = code & 255;
  return left != 0 ? left : 1;
}

int RankEnd::status() const {
  if (abort_code) return abort_status(*abort_code);
  if (without_finalize && exit_code == 0) return 1;
  switch (kind) {
    case EndKind::kExited:
    case EndKind::kStartFailed:
      return exit_code;
    case EndKind::kSignalled:
      return signal_exit_code(signal);
    case EndKind::kStopped:
      return signal != 0 ? signal_exit_code(signal) : exit_code;
    case EndKind::kHostLost:
      break;
  }
  return kMusterFailed;
}

bool RankEnd::failed() const {
  return kind != EndKind::kExited || exit_code != 0 || abort_code || without_finalize;
}

bool asks_never_again(const std::vector<RankEnd>& ends) {
  return asked_never_again(ends) >= 0;
}

int root_cause(const std::vector<RankEnd>& ends) {
  if (const int asked = asked_never_again(ends); asked >= 0) return asked;
  int first = -1;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (!is_candidate(ends[i])) continue;
    if (first < 0 || is_before(ends[i], ends[static_cast<std::size_t>(first)])) first = static_cast<int>(i);
  }
  if (first < 0 || ends[static_cast<std::size_t>(first)].kind == EndKind::kSignalled) return first;
  const base::MonotonicTime until = ends[static_cast<std::size_t>(first)].at + kSignalPrecedence;
  int signalled = -1;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i].kind != EndKind::kSignalled || ends[i].at > until) continue;
    if (signalled < 0 || is_before(ends[i], ends[static_cast<std::size_t>(signalled)])) signalled = static_cast<int>(i);
  }
  // Only an exit code yields to a signal. A program that did not start, or a lost host, explains the signals after it.
  const bool yields = ends[static_cast<std::size_t>(first)].kind == EndKind::kExited;
  return yields && signalled >= 0 ? signalled : first;
}

std::string describe_mpi(const RankEnd& end) {
  if (end.abort_code) {
    // Say "after": most libraries abort because of the refused spawn, but a program may abort for another reason.
    const char* after = end.spawn_refused ? " after its MPI_Comm_spawn had failed" : "";
    return fmt::format("called MPI_Abort({}){}", *end.abort_code, after);
  }
  return end.without_finalize ? "ended without MPI_Finalize" : "";
}

std::string describe(const RankEnd& end) {
  switch (end.kind) {
    case EndKind::kExited:
      return describe_exit(end);
    case EndKind::kSignalled:
      if (!end.detail.empty()) return fmt::format("ended because the job hung: {}", end.detail);
      return end.out_of_memory ? fmt::format("out of memory: killed by the kernel, {}", describe_signal(end.signal))
                               : describe_signal(end.signal);
    case EndKind::kStartFailed:
      return end.detail.empty() ? fmt::format("did not start (exit code {})", end.exit_code)
                                : fmt::format("did not start: {}", end.detail);
    case EndKind::kStopped:
      if (!end.detail.empty()) return "did not start: " + end.detail;
      return end.signal != 0 ? fmt::format("{} after the stop", describe_signal(end.signal))
                             : fmt::format("exit code {} after the stop", end.exit_code);
    case EndKind::kHostLost:
      break;
  }
  return end.detail.empty() ? fmt::format("host {} was lost", end.host)
                            : fmt::format("host {} was lost: {}", end.host, end.detail);
}

std::string describe_to_peers(const RankEnd& end) {
  switch (end.kind) {
    case EndKind::kExited:
      if (end.abort_code) return describe_mpi(end);
      if (end.without_finalize) return fmt::format("exited with {} without MPI_Finalize", end.exit_code);
      return end.out_of_memory ? fmt::format("ran out of memory: exited with {}", end.exit_code)
                               : fmt::format("exited with {}", end.exit_code);
    case EndKind::kSignalled:
      if (!end.detail.empty()) return "was ended because the job hung: " + end.detail;
      return end.out_of_memory ? fmt::format("ran out of memory: killed by {}", name_signal(end.signal))
                               : fmt::format("was killed by {}", name_signal(end.signal));
    case EndKind::kStartFailed:
      return end.detail.empty() ? "did not start" : "did not start: " + end.detail;
    case EndKind::kStopped:
      return end.signal != 0 ? fmt::format("was ended with the job, by {}", name_signal(end.signal))
                             : "was ended with the job";
    case EndKind::kHostLost:
      break;
  }
  return fmt::format("was lost with its host {}", end.host);
}

std::string describe_consequences(const std::vector<RankEnd>& ends, int root) {
  struct Group {
    std::vector<int> ranks;
    std::vector<std::string> lost_hosts;
  };
  std::vector<std::pair<std::string, Group>> groups;  // each end with its ranks
  std::map<std::string, std::size_t> index_of;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (static_cast<int>(i) == root || !ends[i].failed()) continue;
    const bool is_lost = ends[i].kind == EndKind::kHostLost;
    std::string what = is_lost ? std::string() : predicate(ends[i]);
    if (is_same_start_failure(ends[i], ends[static_cast<std::size_t>(root)]))
      what = "did not start for the same reason";
    const auto [found, is_new] = index_of.try_emplace(what, groups.size());
    if (is_new) groups.emplace_back(what, Group());
    Group& group = groups[found->second].second;
    group.ranks.push_back(ends[i].rank);
    if (is_lost) group.lost_hosts.push_back(ends[i].host);
  }
  for (auto& [what, group] : groups) std::ranges::sort(group.ranks);
  std::ranges::sort(groups, {}, [](const auto& group) { return group.second.ranks.front(); });
  constexpr std::size_t kMostBytes = 240;
  std::string line;
  std::size_t unnamed = 0;
  for (const auto& [what, group] : groups) {
    const auto& ranks = group.ranks;
    const auto& hosts = group.lost_hosts;
    std::string how = what;
    if (!hosts.empty()) {
      const bool is_one = std::ranges::all_of(hosts, [&](const std::string& host) { return host == hosts.front(); });
      how = fmt::format("lost with host{} {}", is_one ? "" : "s", short_host_list(hosts));
    }
    const std::string part = fmt::format("{}{} {} {}", line.empty() ? "" : "; ", ranks.size() == 1 ? "rank" : "ranks",
                                         short_rank_list(ranks), how);
    if (!line.empty() && line.size() + part.size() > kMostBytes) {
      unnamed += ranks.size();
    } else {
      line += part;
    }
  }
  if (unnamed > 0) line += fmt::format("; and {} more ranks failed", format_count(unnamed));
  return line;
}

std::string short_rank_list(const std::vector<int>& ranks) {
  constexpr std::size_t kMostBytes = 80;
  std::string list = format_rank_list(ranks);
  if (list.size() <= kMostBytes) return list;
  const std::size_t end = list.rfind(',', kMostBytes);
  if (end == std::string::npos) return list;
  list.resize(end);
  std::size_t named = 0;
  for (const std::string_view part : base::split(list, ',')) {
    const auto first = base::parse_decimal(part.substr(0, part.find('-')), std::numeric_limits<int>::max());
    const auto last = base::parse_decimal(part.substr(part.find('-') + 1), std::numeric_limits<int>::max());
    if (first && last) named += static_cast<std::size_t>(*last - *first + 1);
  }
  const std::size_t all = std::set<int>(ranks.begin(), ranks.end()).size();
  return fmt::format("{} and {} more", list, format_count(all - named));
}

std::string format_rank_list(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace muster::model
