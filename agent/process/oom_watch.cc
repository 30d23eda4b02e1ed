#include "agent/process/oom_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <iterator>
#include <utility>

#include "base/file.h"
#include "base/strings.h"

namespace muster::agent::inline process {

namespace {

using std::chrono::microseconds;

constexpr std::size_t kMostLines = 256;                        // kept; older ones go first
constexpr std::size_t kLongestText = 512;                      // of a record
constexpr microseconds kOldestLine = std::chrono::minutes(1);  // of a line that is matched without its pid

template <typename Number>
Number number_at(std::string_view text) {
  Number number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Returns the number after `key`, as in "anon-rss:1024kB". 0 if there is none.
std::uint64_t number_after(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  return at == std::string_view::npos ? 0 : number_at<std::uint64_t>(text.substr(at + key.size()));
}

// The kernel counts a process's memory when it kills it, and the peak may be some time before.
bool is_about(std::uint64_t resident_kib, std::uint64_t peak_kib) {
  const std::uint64_t tolerance = peak_kib / 8 + 4096;
  return resident_kib > 0 && resident_kib <= peak_kib + tolerance && resident_kib + tolerance >= peak_kib;
}

}  // namespace

OomSources own_oom_sources() {
  OomSources sources;
  const auto mountinfo = base::read_file("/proc/self/mountinfo");
  const auto self_cgroup = base::read_file("/proc/self/cgroup");
  if (mountinfo.ok() && self_cgroup.ok()) sources.memory_events = find_memory_events(*mountinfo, *self_cgroup);
  return sources;
}

OomWatch::OomWatch(const Cgroup* cgroup, const OomSources& sources)
    : cgroup_(cgroup), sources_(sources), log_(::open(sources.log.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  counted_ = kills_here().value_or(0);
  machine_counted_ = keyed_value(sources_.vmstat, "oom_kill").value_or(0);
  if (log_.valid()) ::lseek(log_.get(), 0, SEEK_END);
}

OomWatch::OomWatch(const Cgroup* cgroup) : OomWatch(cgroup, own_oom_sources()) {}

std::optional<std::uint64_t> OomWatch::kills_here() const {
  if (cgroup_ != nullptr) {
    if (const auto count = cgroup_->oom_kills()) return count;
  }
  return sources_.memory_events.empty() ? std::nullopt : keyed_value(sources_.memory_events, "oom_kill");
}

OomJudgement OomWatch::judge(const KilledRank& rank, microseconds now) {
  read_log();
  const auto line = take_line(rank, now);
  const bool is_logged = line && (line->pid == rank.pid || is_about(line->resident_kib, rank.peak_kib));
  const auto here = kills_here();
  const bool is_counted = here && *here > counted_;
  if (is_counted) ++counted_;
  const std::uint64_t machine = keyed_value(sources_.vmstat, "oom_kill").value_or(0);
  const bool is_any = machine > std::exchange(machine_counted_, machine);
  OomJudgement judgement{.verdict = OomVerdict::kNo, .kernel_line = line ? line->text : std::string()};
  if (is_logged || is_counted) {
    judgement.verdict = OomVerdict::kYes;
  } else if (is_any || line) {
    judgement.verdict = OomVerdict::kPerhaps;
  }
  return judgement;
}

// Prefers the line with the rank's pid, then one whose memory fits, then the newest with its name.
std::optional<OomLine> OomWatch::take_line(const KilledRank& rank, microseconds now) {
  const auto is_named = [&](const OomLine& line) { return rank.command.empty() || line.command == rank.command; };
  const auto is_near = [&](const OomLine& line) {
    return !rank.command.empty() && line.command == rank.command && line.at + kOldestLine >= now;
  };
  auto found =
      std::ranges::find_if(lines_, [&](const OomLine& line) { return line.pid == rank.pid && is_named(line); });
  if (found == lines_.end()) {
    found = std::ranges::find_if(
        lines_, [&](const OomLine& line) { return is_near(line) && is_about(line.resident_kib, rank.peak_kib); });
  }
  if (found == lines_.end()) {
    const auto newest = std::find_if(lines_.rbegin(), lines_.rend(), is_near);
    if (newest != lines_.rend()) found = std::prev(newest.base());
  }
  if (found == lines_.end()) return std::nullopt;
  OomLine line = std::move(*found);
  lines_.erase(found);
  return line;
}

std::uint64_t OomWatch::take_others() {
  const auto here = kills_here();
  if (!here || *here <= counted_) return 0;
  return *here - std::exchange(counted_, *here);
}

void OomWatch::read_log() {
  if (!log_.valid()) return;
  char line[8192];
  while (true) {
    const ssize_t n = ::read(log_.get(), line, sizeof line);
    // EPIPE means that records were overwritten before we read them.
    if (n < 0 && (errno == EPIPE || errno == EINTR)) continue;
    if (n <= 0) return;
    auto parsed = parse_oom_line(std::string_view(line, static_cast<std::size_t>(n)));
    if (parsed) lines_.push_back(std::move(*parsed));
    if (lines_.size() > kMostLines) lines_.pop_front();
  }
}

std::optional<OomLine> parse_oom_line(std::string_view record) {
  constexpr std::string_view kPhrase = "Killed process ";
  const std::size_t semicolon = record.find(';');
  if (semicolon == std::string_view::npos) return std::nullopt;
  const std::string_view text = record.substr(semicolon + 1, record.find('\n', semicolon) - semicolon - 1);
  if (text.find("emory") == std::string_view::npos) return std::nullopt;  // "Memory cgroup out of memory", …
  const std::size_t at = text.find(kPhrase);
  if (at == std::string_view::npos) return std::nullopt;
  OomLine line;
  line.pid = number_at<pid_t>(text.substr(at + kPhrase.size()));
  if (line.pid <= 0) return std::nullopt;
  const auto prefix = base::split(record.substr(0, semicolon), ',');  // priority, number, microseconds, flags
  if (prefix.size() >= 3) line.at = microseconds(number_at<std::int64_t>(prefix[2]));
  // A name may contain ")": it ends before the next field, which begins with " total-vm:" or a comma.
  const std::size_t open = text.find('(', at);
  std::size_t close = text.find(") total-vm:", at);
  if (close == std::string_view::npos) close = text.find("), ", at);
  if (open != std::string_view::npos && close != std::string_view::npos && open < close) {
    line.command = std::string(text.substr(open + 1, close - open - 1));
  }
  for (const char* key : {"anon-rss:", "file-rss:", "shmem-rss:"}) line.resident_kib += number_after(text, key);
  line.text = base::printable(text.substr(0, kLongestText));
  return line;
}

}  // namespace muster::agent::process
