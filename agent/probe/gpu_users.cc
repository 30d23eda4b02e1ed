#include "agent/probe/gpu_users.h"

#include <signal.h>
#include <sys/stat.h>

#include <cerrno>

#include "agent/process/proc_table.h"
#include "base/strings.h"

namespace muster::agent {
namespace {

constexpr std::size_t kMostUsers = 256;

v1::GpuUser user_of(int gpu, const gpus::GpuProcess& process) {
  v1::GpuUser user;
  user.set_gpu(gpu);
  user.set_pid(process.pid);
  if (process.memory) user.set_memory_mib(static_cast<std::int64_t>(*process.memory >> 20));
  user.set_has_ended(::kill(process.pid, 0) != 0 && errno == ESRCH);
  struct stat owner {};
  if (::stat(fmt::format("/proc/{}", process.pid).c_str(), &owner) == 0) user.set_uid(owner.st_uid);
  if (const auto info = read_process(process.pid)) user.set_command(base::valid_utf8(info->command));
  return user;
}

}  // namespace

std::vector<v1::GpuUser> find_gpu_users(const gpus::GpuReport& nvidia) {
  std::vector<v1::GpuUser> users;
  for (std::size_t i = 0; i < nvidia.gpus.size(); ++i) {
    for (const gpus::GpuProcess& process : nvidia.gpus[i].processes) {
      if (users.size() < kMostUsers) users.push_back(user_of(static_cast<int>(i), process));
    }
  }
  return users;
}

}  // namespace muster::agent
