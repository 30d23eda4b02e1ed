#include "agent/host/host_load.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <vector>

#include <unistd.h>

#include "base/file.h"
#include "base/strings.h"

namespace muster::agent::inline host {
namespace {

constexpr std::size_t kMostStat = 4 << 20;  // /proc/stat has a line for each interrupt and each CPU
constexpr std::size_t kLongestMeminfo = 64 << 10;
constexpr std::size_t kLongestNetDev = 1 << 20;
constexpr std::size_t kMostInterfaces = 4096;
constexpr int kNoticeablePercent = 2;
constexpr std::int64_t kNoticeableMib = 64;
constexpr std::int64_t kNoticeableShare = 100;     // a change of a hundredth is noticeable
constexpr std::int64_t kNoticeableRate = 1 << 20;  // bytes per second
constexpr std::int64_t kNoticeableRateShare = 10;  // a change of a tenth is noticeable

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

bool is_far_rate(const v1::HostLoad& before, const v1::HostLoad& now) {
  if (before.has_network_bytes_per_second() != now.has_network_bytes_per_second()) return true;
  const std::int64_t rate = before.network_bytes_per_second();
  return std::abs(now.network_bytes_per_second() - rate) >= std::max(kNoticeableRate, rate / kNoticeableRateShare);
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

// A line is "  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16". The first number is of received bytes, the ninth of sent
// ones.
NetworkBytes parse_network_bytes(std::string_view net_dev) {
  constexpr std::size_t kSentColumn = 8;
  constexpr std::size_t kCounters = 16;
  NetworkBytes bytes;
  for (const std::string_view line : base::split(net_dev, '\n')) {
    const std::size_t colon = line.rfind(':');
    if (colon == std::string_view::npos || bytes.size() >= kMostInterfaces) continue;
    const std::string_view name = base::trim(line.substr(0, colon));
    const auto words = words_of(line.substr(colon + 1));
    if (name.empty() || name == "lo" || words.size() < kCounters) continue;
    const auto received = unsigned_of(words[0]);
    const auto sent = unsigned_of(words[kSentColumn]);
    if (received && sent) bytes.insert_or_assign(std::string(name), *received + *sent);
  }
  return bytes;
}

std::optional<std::int64_t> network_rate(const NetworkBytes& before, const NetworkBytes& now, base::Duration elapsed) {
  const double seconds = std::chrono::duration<double>(elapsed).count();
  constexpr double kHighest = 1e15;  // no interface is faster, and the result fits
  if (seconds <= 0) return std::nullopt;
  double sum = 0;
  bool is_known = false;
  for (const auto& [name, bytes] : now) {
    const auto former = before.find(name);
    if (former == before.end() || bytes < former->second) continue;
    sum += static_cast<double>(bytes - former->second);
    is_known = true;
  }
  if (!is_known) return std::nullopt;
  return std::llround(std::min(sum / seconds, kHighest));
}

bool is_noticeable(const v1::HostLoad& before, const v1::HostLoad& now) {
  if (before.has_cpu_percent() != now.has_cpu_percent() || before.has_memory_used_mib() != now.has_memory_used_mib()) {
    return true;
  }
  if (before.has_gpu_problem() != now.has_gpu_problem() || before.gpu_problem() != now.gpu_problem()) return true;
  if (std::abs(before.cpu_percent() - now.cpu_percent()) >= kNoticeablePercent) return true;
  if (is_far(before.memory_used_mib(), now.memory_used_mib()) || is_far_rate(before, now)) return true;
  if (before.gpus_size() != now.gpus_size()) return true;
  for (int i = 0; i < now.gpus_size(); ++i) {
    if (!has_same_values(before.gpus(i), now.gpus(i))) return true;
    if (std::abs(before.gpus(i).busy_percent() - now.gpus(i).busy_percent()) >= kNoticeablePercent) return true;
    if (is_far(before.gpus(i).memory_used_mib(), now.gpus(i).memory_used_mib())) return true;
    if (before.gpus(i).processes() != now.gpus(i).processes()) return true;
  }
  return false;
}

void HostLoadReader::add_network(base::MonotonicTime now, v1::HostLoad& load) {
  const auto text = base::read_file(root_ + "/proc/net/dev", kLongestNetDev);
  NetworkBytes bytes = text.ok() ? parse_network_bytes(*text) : NetworkBytes();
  NetworkBytes of_devices;
  for (const auto& [name, count] : bytes) {
    if (name.find('/') != std::string::npos || name == "." || name == "..") continue;  // no name of an interface
    if (::access((root_ + "/sys/class/net/" + name + "/device").c_str(), F_OK) == 0) of_devices.emplace(name, count);
  }
  if (!of_devices.empty()) bytes = std::move(of_devices);
  if (const auto rate = network_rate(network_before_, bytes, now - network_time_)) {
    load.set_network_bytes_per_second(*rate);
  }
  network_before_ = std::move(bytes);
  network_time_ = now;
}

v1::HostLoad HostLoadReader::read(base::MonotonicTime now) {
  v1::HostLoad load;
  const auto stat = base::read_file(root_ + "/proc/stat", kMostStat);
  const auto times = stat.ok() ? parse_cpu_times(*stat) : std::nullopt;
  if (times && before_) {
    if (const auto percent = cpu_percent(*before_, *times)) load.set_cpu_percent(*percent);
  }
  before_ = times;
  const auto meminfo = base::read_file(root_ + "/proc/meminfo", kLongestMeminfo);
  if (const auto used = meminfo.ok() ? parse_used_memory(*meminfo) : std::nullopt) load.set_memory_used_mib(*used);
  add_network(now, load);
  return load;
}

}  // namespace muster::agent::host
