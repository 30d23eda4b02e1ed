#include "agent/stacks/kernel_stack.h"

#include <dirent.h>

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "agent/proc/proc_table.h"
#include "base/file.h"
#include "base/strings.h"

namespace muster::agent::inline stacks {
namespace {

constexpr std::size_t kMaxFile = 64u << 10;

std::string read_small(const std::string& path) {
  const auto content = base::read_file(path, kMaxFile);
  // Empty if the process has ended, or if the kernel does not show the file to us.
  return content.ok() ? *content : std::string();
}

}  // namespace

std::vector<pid_t> threads_of(pid_t pid) {
  std::vector<pid_t> tids;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(fmt::format("/proc/{}/task", pid).c_str()), ::closedir);
  if (directory == nullptr) return tids;
  while (const dirent* entry = ::readdir(directory.get())) {
    const auto tid = base::parse_decimal(entry->d_name, 1L << 30);
    if (tid) tids.push_back(static_cast<pid_t>(*tid));
  }
  std::ranges::sort(tids);
  return tids;
}

std::vector<std::string> parse_kernel_stack(std::string_view content) {
  std::vector<std::string> frames;
  for (std::string_view line : base::split(content, '\n')) {
    const auto blank = line.find("] ");
    if (!line.starts_with('[') || blank == std::string_view::npos) continue;
    line.remove_prefix(blank + 2);
    frames.emplace_back(line.substr(0, line.find('+')));
  }
  return frames;
}

std::vector<KernelStack> read_kernel_stacks(pid_t pid) {
  std::vector<KernelStack> stacks;
  for (const pid_t tid : threads_of(pid)) {
    const std::string directory = fmt::format("/proc/{}/task/{}", pid, tid);
    const auto stat = parse_stat(read_small(directory + "/stat"));
    if (!stat) continue;
    KernelStack& stack = stacks.emplace_back();
    stack.tid = tid;
    stack.name = stat->command;
    stack.state = stat->state;
    stack.wait_channel = base::trim(read_small(directory + "/wchan"));
    if (stack.wait_channel == "0") stack.wait_channel.clear();
    stack.frames = parse_kernel_stack(read_small(directory + "/stack"));
  }
  return stacks;
}

}  // namespace muster::agent::stacks
