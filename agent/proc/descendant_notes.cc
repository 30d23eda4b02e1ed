#include "agent/proc/descendant_notes.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "agent/proc/proc_table.h"
#include "agent/proc/session_dir.h"
#include "base/file.h"
#include "base/strings.h"

namespace muster::agent::inline proc {
namespace {

constexpr const char* kDescendantNote = "descendants";
constexpr std::chrono::milliseconds kFirstPollDelay{500};
constexpr std::chrono::milliseconds kLongestPause{10'000};
constexpr std::size_t kMostDescendants = 4096;

// Appends the children of all threads of `pid`, because a child belongs to the thread that forked it. Finds none if
// the kernel lacks CONFIG_PROC_CHILDREN.
void add_children(pid_t pid, std::vector<pid_t>& pids) {
  const std::string tasks = fmt::format("/proc/{}/task", pid);
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(tasks.c_str()), ::closedir);
  if (!directory) return;
  while (const dirent* entry = ::readdir(directory.get())) {
    if (entry->d_name[0] == '.') continue;
    const auto content = base::read_file(fmt::format("{}/{}/children", tasks, entry->d_name));
    if (!content.ok()) continue;
    for (const std::string_view word : base::split(base::trim(*content), ' ')) {
      const auto child = base::parse_decimal(word, 1L << 30);
      if (child && pids.size() < kMostDescendants) pids.push_back(static_cast<pid_t>(*child));
    }
  }
}

}  // namespace

base::Result<DescendantNotes> DescendantNotes::create(const std::string& session_path) {
  MUSTER_ASSIGN_OR_RETURN(base::UniqueFd note, open_note(session_path, kDescendantNote));
  return DescendantNotes(std::move(note));
}

void DescendantNotes::begin(base::MonotonicTime now) {
  pause_ = kFirstPollDelay;
  next_ = now + pause_;
}

void DescendantNotes::poll(base::MonotonicTime now) {
  if (now < next_) return;
  pause_ = std::min(pause_ * 2, kLongestPause);
  next_ = now + pause_;
  std::vector<pid_t> pids;
  add_children(::getpid(), pids);
  std::string lines;
  const pid_t own_session = ::getsid(0);
  for (std::size_t i = 0; i < pids.size(); ++i) {  // add_children() appends to `pids` during this loop
    add_children(pids[i], pids);
    const auto info = read_process(pids[i]);
    if (!info || info->is_dead() || info->session == own_session) continue;
    const auto [known, is_new] = noted_.try_emplace(info->pid, info->start_time);
    if (!is_new && known->second == info->start_time) continue;
    known->second = info->start_time;
    lines += fmt::format("{} {}\n", info->pid, info->start_time);
  }
  // Ignore errors: on a full disk the note stays short, and a sweep finds what was noted before.
  if (!lines.empty()) (void)base::write_all_blocking(note_.get(), lines.data(), lines.size());
}

std::vector<KnownRank> noted_descendants(const std::string& session_path) {
  return known_processes(session_path, kDescendantNote);
}

}  // namespace muster::agent::proc
