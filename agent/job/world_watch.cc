// Read begin() first, then look(), then look_at_worlds() and the functions that read /proc.
#include "agent/job/world_watch.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "agent/proc/proc_table.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/strings.h"

namespace muster::agent::inline job {
namespace {

constexpr int kGrowth = 3;
constexpr std::chrono::milliseconds kLongestPause{135'000};
constexpr std::size_t kMostProcesses = 256;  // of one rank
constexpr std::size_t kMostThreads = 1024;   // of one process
constexpr std::size_t kMostEnviron = 1 << 20;
constexpr std::size_t kMostCommand = 1 << 16;

std::vector<std::string> strings_of(const std::string& path, std::size_t limit) {
  const auto content = base::read_file(path, limit);
  std::vector<std::string> strings;
  if (!content.ok()) return strings;
  std::string_view rest = *content;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    strings.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return strings;
}

std::map<std::string, std::string> variables_of(pid_t pid) {
  std::map<std::string, std::string> variables;
  for (const std::string& entry : strings_of(fmt::format("/proc/{}/environ", pid), kMostEnviron)) {
    const std::size_t equals = entry.find('=');
    const std::string_view name = std::string_view(entry).substr(0, equals);
    if (equals == std::string::npos || std::ranges::find(kWorldVariables, name) == std::end(kWorldVariables)) continue;
    variables.emplace(name, entry.substr(equals + 1));
  }
  return variables;
}

std::vector<std::string> threads_of(pid_t pid) {
  std::vector<std::string> names;
  const std::string tasks = fmt::format("/proc/{}/task", pid);
  for (const std::string& task : base::entries_of(tasks)) {
    const auto name = base::read_file(fmt::format("{}/{}/comm", tasks, task), 64);
    if (name.ok()) names.emplace_back(base::trim(*name));
    if (names.size() == kMostThreads) break;
  }
  return names;
}

using Launchers = std::map<pid_t, std::string>;  // the launchers among a rank's processes

// Returns the nearest launcher above the process, within the rank.
std::string launcher_above(const std::map<pid_t, pid_t>& parents, const Launchers& launchers, pid_t pid) {
  for (std::size_t i = 0; i < kMostProcesses; ++i) {
    const auto parent = parents.find(pid);
    if (parent == parents.end()) return "";
    pid = parent->second;
    if (const auto found = launchers.find(pid); found != launchers.end()) return found->second;
  }
  return "";
}

constexpr std::string_view kShells[] = {"sh", "bash", "dash", "ash", "ksh", "zsh"};

// True for the rank's own process, and for one that it has started through shells only. A program that a rank's Python
// starts may be meant to run alone.
bool is_program_of_rank(const std::map<pid_t, pid_t>& parents, const std::map<pid_t, std::string>& commands,
                        pid_t pid) {
  for (std::size_t i = 0; i < kMostProcesses; ++i) {
    const auto parent = parents.find(pid);
    if (parent == parents.end()) return true;
    pid = parent->second;
    const auto command = commands.find(pid);
    if (command == commands.end() || std::ranges::find(kShells, command->second) == std::end(kShells)) return false;
  }
  return false;
}

std::vector<FormedGroup> groups_of(const WatchedRank& rank, const std::vector<proc::ProcessInfo>& table) {
  std::vector<pid_t> pids{rank.pid};
  std::map<pid_t, pid_t> parents;
  std::map<pid_t, std::string> commands;
  const auto own = std::ranges::find(table, rank.pid, &proc::ProcessInfo::pid);
  if (own != table.end()) commands.emplace(rank.pid, own->command);
  for (const proc::ProcessInfo& process : proc::descendants(table, rank.pid)) {
    if (process.is_dead() || pids.size() == kMostProcesses) continue;
    pids.push_back(process.pid);
    parents.emplace(process.pid, process.parent);
    commands.emplace(process.pid, process.command);
  }
  Launchers launchers;
  for (const pid_t pid : pids) {
    std::string name = launcher_of(strings_of(fmt::format("/proc/{}/cmdline", pid), kMostCommand));
    if (!name.empty()) launchers.emplace(pid, std::move(name));
  }
  std::vector<FormedGroup> groups;
  for (const pid_t pid : pids) {
    if (launchers.contains(pid)) continue;
    ProcessFacts facts{.variables = variables_of(pid),
                       .threads = threads_of(pid),
                       .launcher = launcher_above(parents, launchers, pid)};
    const auto maps = base::read_file(fmt::format("/proc/{}/maps", pid));
    facts.has_begun_open_mpi = maps.ok() && maps_begun_open_mpi(*maps);
    facts.has_begun_mpich =
        rank.has_pmi && maps.ok() && maps_begun_mpich(*maps) && is_program_of_rank(parents, commands, pid);
    if (auto group = group_of(facts, rank.size, rank.has_contact)) groups.push_back(std::move(*group));
  }
  return groups;
}

}  // namespace

std::map<int, FormedGroup> look_at_worlds(const std::vector<WatchedRank>& ranks) {
  std::map<int, FormedGroup> found;
  const std::vector<proc::ProcessInfo> table = proc::read_all_processes();
  for (const WatchedRank& rank : ranks) {
    if (auto group = wrong_group(groups_of(rank, table), rank.size)) found.emplace(rank.rank, std::move(*group));
  }
  return found;
}

void WorldWatch::begin() {
  pause_ = first_pause_;
  reported_.clear();
  wait();
}

void WorldWatch::wait() {
  if (pause_ > kLongestPause) return;
  timer_ = loop_.after(pause_, [this] { look(); });
  pause_ *= kGrowth;
}

void WorldWatch::look() {
  wait();
  std::vector<WatchedRank> ranks = events_.ranks();
  std::erase_if(ranks, [](const WatchedRank& rank) { return rank.size < 2 || rank.pid <= 0; });
  if (ranks.empty()) return;
  if (thread_ == nullptr) {
    auto thread = base::DiskThread::start(loop_);
    if (!thread.ok()) return;  // the next look tries again
    thread_ = std::move(*thread);
  }
  thread_->add([this, ranks = std::move(ranks)](const std::atomic<bool>& /*stop*/) -> base::Loop::Task {
    return [this, groups = look_at_worlds(ranks)] { report(groups); };
  });
}

void WorldWatch::report(const std::map<int, FormedGroup>& groups) {
  for (const auto& [rank, group] : groups) {
    const auto known = reported_.find(rank);
    if (known != reported_.end() && known->second == group) continue;
    reported_.insert_or_assign(rank, group);
    v1::RankWorld world;
    world.set_rank(rank);
    world.set_size(group.size);
    world.set_source(group.source);
    world.set_detail(group.detail);
    events_.send(std::move(world));
  }
}

}  // namespace muster::agent::job
