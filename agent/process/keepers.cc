#include "agent/process/keepers.h"

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "agent/proc/session_dir.h"
#include "agent/proc/session_notes.h"

namespace muster::agent::inline process {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kKeeperNote = "keepers";
// A warden kills for at most 3 s, then audits, then gives its agent 5 s.
constexpr std::chrono::seconds kKeepersEnd{10};
constexpr int kKeeperPollMs = 20;

bool has_ended_session(const std::string& session_path) {
  return !may_be_alive(inspect_session(session_path));
}

}  // namespace

base::Status note_keepers(const std::string& session_path, pid_t agent, pid_t warden) {
  std::string lines;
  for (const pid_t pid : {agent, warden}) {
    if (const auto info = read_process(pid)) lines += fmt::format("{} {}\n", pid, info->start_time);
  }
  return proc::write_note(session_path, kKeeperNote, lines);
}

std::vector<ProcessInfo> continue_stopped_keepers(const std::string& session_path) {
  std::vector<ProcessInfo> continued;
  for (const KnownRank& keeper : known_processes(session_path, kKeeperNote)) {
    const auto info = read_process(keeper.pid);
    const bool is_it = info && info->start_time == keeper.not_before && is_of_user(keeper.pid, ::getuid());
    if (is_it && info->state == 'T' && signal_process(*info, SIGCONT)) continued.push_back(*info);
  }
  return continued;
}

void end_stopped_sessions(const std::string& root) {
  const auto sessions = list_all_sessions(root);
  if (!sessions.ok()) return;  // the search that follows reports the error
  std::vector<std::string> ending;
  for (const std::string& path : *sessions) {
    const auto session = inspect_session(path);
    if (!session.ok() || !session->is_alive || !session->lease_has_passed) continue;
    if (!continue_stopped_keepers(path).empty()) ending.push_back(path);
  }
  const auto deadline = Clock::now() + kKeepersEnd;
  while (!ending.empty() && Clock::now() < deadline) {
    ::poll(nullptr, 0, kKeeperPollMs);  // no event says when another process frees its lock
    std::erase_if(ending, has_ended_session);
  }
}

}  // namespace muster::agent::process
