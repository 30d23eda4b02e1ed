#include "agent/host/host_load.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <vector>

#include "base/file.h"
#include "base/strings.h"

namespace muster::agent::inline host {
namespace {

constexpr std::size_t kMostStat = 4 << 20;  // /proc/stat has a line for each interrupt and each CPU
constexpr std::size_t kLongestMeminfo = 64 << 10;
constexpr int kNoticeablePercent = 2;
constexpr std::int64_t kNoticeableMib = 64;
constexpr std::int64_t kNoticeableShare = 100;  // a change of a hundredth is noticeable

// Positions in the kernel's columns: user, nice, system, idle, iowait, irq, softirq, steal. Guest times are included
// in user and nice.
constexpr std::size_t kIdleColumn = 3;
constexpr std::size_t kIoWaitColumn = 4;
constexpr std::size_t kColumns = 8;

std::optional<std::uint64_t> unsigned_of(std::string_view text) {
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words = base::split(line, ' ');
  std::erase(words, "");
  return words;
}

// Returns the number of a line like "MemTotal:       16316412 kB".
std::optional<std::uint64_t> kibibytes_of(std::string_view meminfo, std::string_view name) {
  for (const std::string_view line : base::split(meminfo, '\n')) {
    const auto words = words_of(line);
    if (words.size() == 3 && words[0] == name && words[2] == "kB") return unsigned_of(words[1]);
  }
  return std::nullopt;
}

bool is_far(std::int64_t before, std::int64_t now) {
  return std::abs(now - before) >= std::max(kNoticeableMib, before / kNoticeableShare);
}

// True if both describe the same GPU and have the same values set, whatever the values are.
bool has_same_values(const v1::GpuLoad& before, const v1::GpuLoad& now) {
  return before.vendor() == now.vendor() && before.index() == now.index() &&
         before.busy_unknown() == now.busy_unknown() && before.has_memory_used_mib() == now.has_memory_used_mib() &&
         before.has_processes() == now.has_processes();
}

}  // namespace

std::optional<CpuTimes> parse_cpu_times(std::string_view stat) {
  const auto words = words_of(stat.substr(0, stat.find('\n')));
  if (words.size() <= kIoWaitColumn + 1 || words[0] != "cpu") return std::nullopt;
  CpuTimes times;
  for (std::size_t i = 0; i < std::min(kColumns, words.size() - 1); ++i) {
    const auto ticks = unsigned_of(words[i + 1]);
    if (!ticks) return std::nullopt;
    times.total += *ticks;
    if (i != kIdleColumn && i != kIoWaitColumn) times.busy += *ticks;
  }
  return times;
}

std::optional<int> cpu_percent(const CpuTimes& before, const CpuTimes& now) {
  // The kernel's idle time may go back a little (proc(5)). Such a reading is skipped.
  if (now.total <= before.total || now.busy < before.busy) return std::nullopt;
  const std::uint64_t total = now.total - before.total;
  const std::uint64_t busy = std::min(now.busy - before.busy, total);
  return static_cast<int>((static_cast<double>(busy) * 100.0) / static_cast<double>(total) + 0.5);
}

std::optional<std::int64_t> parse_used_memory(std::string_view meminfo) {
  const auto total = kibibytes_of(meminfo, "MemTotal:");
  const auto available = kibibytes_of(meminfo, "MemAvailable:");
  if (!total || !available || *available > *total) return std::nullopt;
  return static_cast<std::int64_t>((*total - *available) >> 10);
}

bool is_noticeable(const v1::HostLoad& before, const v1::HostLoad& now) {
  if (before.has_cpu_percent() != now.has_cpu_percent() || before.has_memory_used_mib() != now.has_memory_used_mib()) {
    return true;
  }
  if (before.has_gpu_problem() != now.has_gpu_problem() || before.gpu_problem() != now.gpu_problem()) return true;
  if (std::abs(before.cpu_percent() - now.cpu_percent()) >= kNoticeablePercent) return true;
  if (is_far(before.memory_used_mib(), now.memory_used_mib())) return true;
  if (before.gpus_size() != now.gpus_size()) return true;
  for (int i = 0; i < now.gpus_size(); ++i) {
    if (!has_same_values(before.gpus(i), now.gpus(i))) return true;
    if (std::abs(before.gpus(i).busy_percent() - now.gpus(i).busy_percent()) >= kNoticeablePercent) return true;
    if (is_far(before.gpus(i).memory_used_mib(), now.gpus(i).memory_used_mib())) return true;
    if (before.gpus(i).processes() != now.gpus(i).processes()) return true;
  }
  return false;
}

v1::HostLoad HostLoadReader::read() {
  v1::HostLoad load;
  const auto stat = base::read_file(root_ + "/proc/stat", kMostStat);
  const auto times = stat.ok() ? parse_cpu_times(*stat) : std::nullopt;
  if (times && before_) {
    if (const auto percent = cpu_percent(*before_, *times)) load.set_cpu_percent(*percent);
  }
  before_ = times;
  const auto meminfo = base::read_file(root_ + "/proc/meminfo", kLongestMeminfo);
  if (const auto used = meminfo.ok() ? parse_used_memory(*meminfo) : std::nullopt) load.set_memory_used_mib(*used);
  return load;
}

}  // namespace muster::agent::host
