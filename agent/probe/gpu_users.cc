#include "agent/probe/gpu_users.h"

#include <sys/stat.h>

#include <map>

#include "agent/gpus/gpu_release.h"
#include "agent/proc/proc_table.h"
#include "base/strings.h"
#include "proto/convert.h"

namespace muster::agent::inline probe {
namespace {

constexpr std::size_t kMostUsers = 256;

// If the pid is of another PID namespace, nothing is known about it here. A process that has the number here is a
// different one.
v1::GpuUser user_of(const GpuName& gpu, const gpus::GpuProcess& process, bool is_foreign) {
  v1::GpuUser user;
  user.set_gpu(gpu.index);
  user.set_vendor(proto::to_proto(gpu.vendor));
  user.set_part(base::valid_utf8(gpu.uuid));
  user.set_pid(process.pid);
  if (process.memory) user.set_memory_mib(static_cast<std::int64_t>(*process.memory >> 20));
  user.set_is_foreign(is_foreign);
  if (is_foreign) return user;
  user.set_has_ended(has_ended(process.pid));
  struct stat owner {};
  if (::stat(fmt::format("/proc/{}", process.pid).c_str(), &owner) == 0) user.set_uid(owner.st_uid);
  if (const auto info = read_process(process.pid)) user.set_command(base::valid_utf8(info->command));
  return user;
}

enum class Listed { kNothing, kOwn, kAll };

std::map<GpuName, Listed> listed_users(const gpus::GpuReport& report, const std::vector<model::GpuShape>& known) {
  std::map<GpuName, Listed> listed;
  for (std::size_t i = 0; i < report.gpus.size(); ++i) {
    const gpus::NvidiaGpu& gpu = report.gpus[i];
    listed[name_of(gpu, i, known)] = gpu.knows_processes ? Listed::kAll : Listed::kNothing;
  }
  for (const gpus::FileGpu& gpu : report.others)
    listed[name_of(gpu, report.others, known)] = gpu.shows_all ? Listed::kAll : Listed::kOwn;
  return listed;
}

}  // namespace

std::vector<v1::GpuUser> find_gpu_users(const gpus::GpuReport& report, const v1::Hello& hello) {
  std::vector<v1::GpuUser> users;
  for (const SeenGpu& gpu : see(report, proto::node_shape_of(hello).gpus)) {
    for (const gpus::GpuProcess& process : gpu.processes) {
      if (users.size() < kMostUsers) users.push_back(user_of(gpu.name, process, gpu.foreign_pids));
    }
  }
  return users;
}

std::vector<v1::UntoldGpu> find_unreported_gpus(const gpus::GpuReport& report, const v1::Hello& hello) {
  const std::vector<model::GpuShape> known = proto::node_shape_of(hello).gpus;
  const std::map<GpuName, Listed> listed = listed_users(report, known);
  std::vector<v1::UntoldGpu> unreported;
  for (const model::GpuShape& gpu : known) {
    const auto found = listed.find({.vendor = gpu.vendor, .index = gpu.index});
    if (found != listed.end() && found->second == Listed::kAll) continue;
    v1::UntoldGpu& entry = unreported.emplace_back();
    entry.set_vendor(proto::to_proto(gpu.vendor));
    entry.set_index(gpu.index);
    entry.set_own_only(found != listed.end() && found->second == Listed::kOwn);
  }
  return unreported;
}

}  // namespace muster::agent::probe
