#include "agent/process/oom_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <utility>

#include "base/file.h"

namespace muster::agent::inline process {

namespace {

OomSources own_sources() {
  OomSources sources;
  const auto mountinfo = base::read_file("/proc/self/mountinfo");
  const auto self_cgroup = base::read_file("/proc/self/cgroup");
  if (mountinfo.ok() && self_cgroup.ok()) sources.memory_events = find_memory_events(*mountinfo, *self_cgroup);
  return sources;
}

}  // namespace

OomWatch::OomWatch(const Cgroup* cgroup, const OomSources& sources)
    : cgroup_(cgroup), sources_(sources), log_(::open(sources.log.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  counted_ = kills_here().value_or(0);
  machine_counted_ = keyed_value(sources_.vmstat, "oom_kill").value_or(0);
  if (log_.valid()) ::lseek(log_.get(), 0, SEEK_END);
}

OomWatch::OomWatch(const Cgroup* cgroup) : OomWatch(cgroup, own_sources()) {}

std::optional<std::uint64_t> OomWatch::kills_here() const {
  if (cgroup_ != nullptr) {
    if (const auto count = cgroup_->oom_kills()) return count;
  }
  return sources_.memory_events.empty() ? std::nullopt : keyed_value(sources_.memory_events, "oom_kill");
}

OomVerdict OomWatch::judge(pid_t pid) {
  read_log();
  const bool is_logged = killed_.erase(pid) > 0;
  const auto here = kills_here();
  const bool is_counted = here && *here > counted_;
  if (is_counted) ++counted_;
  const std::uint64_t machine = keyed_value(sources_.vmstat, "oom_kill").value_or(0);
  const bool is_any = machine > std::exchange(machine_counted_, machine);
  if (is_logged || is_counted) return OomVerdict::kYes;
  return is_any ? OomVerdict::kPerhaps : OomVerdict::kNo;
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
    const pid_t pid = pid_in_oom_line(std::string_view(line, static_cast<std::size_t>(n)));
    if (pid > 0) killed_.insert(pid);
  }
}

pid_t pid_in_oom_line(std::string_view line) {
  constexpr std::string_view kPhrase = "Killed process ";
  if (line.find("emory") == std::string_view::npos) return 0;  // "Out of memory", "Memory cgroup out of memory"
  const std::size_t at = line.find(kPhrase);
  if (at == std::string_view::npos) return 0;
  pid_t pid = 0;
  const std::string_view rest = line.substr(at + kPhrase.size());
  std::from_chars(rest.data(), rest.data() + rest.size(), pid);
  return pid;
}

}  // namespace muster::agent::process
