#include "agent/probe/gpu_users.h"

#include <sys/stat.h>

#include "agent/process/proc_table.h"
#include "agent/service/gpu_release.h"
#include "base/strings.h"

namespace muster::agent {
namespace {

constexpr std::size_t kMostUsers = 256;

// Of a number of another PID namespace nothing is known here: a process that has it is another one.
v1::GpuUser user_of(int gpu, const gpus::GpuProcess& process, bool is_foreign) {
  v1::GpuUser user;
  user.set_gpu(gpu);
  user.set_pid(process.pid);
  if (process.memory) user.set_memory_mib(static_cast<std::int64_t>(*process.memory >> 20));
  user.set_has_ended(is_foreign || has_ended(process.pid));
  if (is_foreign) return user;
  struct stat owner {};
  if (::stat(fmt::format("/proc/{}", process.pid).c_str(), &owner) == 0) user.set_uid(owner.st_uid);
  if (const auto info = read_process(process.pid)) user.set_command(base::valid_utf8(info->command));
  return user;
}

}  // namespace

std::vector<v1::GpuUser> find_gpu_users(const gpus::GpuReport& report) {
  std::vector<v1::GpuUser> users;
  const auto add = [&](int gpu, const std::vector<gpus::GpuProcess>& processes, bool is_foreign) {
    for (const gpus::GpuProcess& process : processes) {
      if (users.size() < kMostUsers) users.push_back(user_of(gpu, process, is_foreign));
    }
  };
  for (std::size_t i = 0; i < report.gpus.size(); ++i) {
    add(static_cast<int>(i), report.gpus[i].processes, report.foreign_pids);
  }
  for (const gpus::FileGpu& gpu : report.others) add(gpu.index, gpu.processes, gpu.foreign_pids);
  return users;
}

}  // namespace muster::agent
