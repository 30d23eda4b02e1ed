#include "agent/proc/working_process.h"

#include <algorithm>
#include <string_view>

namespace muster::agent::inline proc {
namespace {

// A longer chain is not followed. The snapshot is not atomic, so a reused pid could make a cycle in it.
constexpr int kMaxChain = 16;

// Shells and container programs, as the kernel shows their names.
constexpr std::string_view kWrappers[] = {"sh",          "bash",      "dash",        "zsh",     "ksh",
                                          "tini",        "dumb-init", "time",        "numactl", "apptainer",
                                          "singularity", "starter",   "starter-suid"};
// The kernel shows 15 characters of "Apptainer runtime parent".
constexpr std::string_view kRuntimes[] = {"Apptainer", "Singularity"};

bool is_wrapper(std::string_view command) {
  return std::ranges::find(kWrappers, command) != std::end(kWrappers) ||
         std::ranges::any_of(kRuntimes, [&](std::string_view name) { return command.starts_with(name); });
}

bool is_python(std::string_view command) {
  return command.starts_with("python") || command.starts_with("pypy");
}

const ProcessInfo* only_child(const std::vector<ProcessInfo>& table, pid_t parent) {
  const ProcessInfo* child = nullptr;
  for (const ProcessInfo& info : table) {
    if (info.parent != parent || info.is_dead()) continue;
    if (child != nullptr) return nullptr;
    child = &info;
  }
  return child;
}

}  // namespace

const ProcessInfo* working_process(const std::vector<ProcessInfo>& table, pid_t root,
                                   const std::function<std::string(pid_t)>& channel) {
  const auto found = std::ranges::find(table, root, &ProcessInfo::pid);
  if (found == table.end() || found->is_dead()) return nullptr;
  const ProcessInfo* process = &*found;
  for (int i = 0; i < kMaxChain && process->state == 'S'; ++i) {
    const ProcessInfo* const child = only_child(table, process->pid);
    if (child == nullptr) break;
    if (!is_wrapper(process->command) && channel(process->pid) != "do_wait") break;
    // The line at which a script waits for a program tells more than the program does.
    if (is_python(process->command) && !is_python(child->command)) break;
    process = child;
  }
  return process;
}

}  // namespace muster::agent::proc
