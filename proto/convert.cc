#include "proto/convert.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>

#include "base/strings.h"
#include "model/gpu_mask.h"

namespace muster::proto {
namespace {

constexpr std::size_t kMostGpus = 1024;  // of a host: nobody's agent keeps the launcher busy with more

}  // namespace

model::NodeShape node_shape_of(const v1::Hello& hello) {
  model::NodeShape shape;
  shape.memory_mib = hello.memory_mib();
  for (const v1::Core& core : hello.cores()) {
    if (core.cpus().empty()) continue;
    shape.cores.push_back({core.socket(), core.numa(), {core.cpus().begin(), core.cpus().end()}});
  }
  for (const v1::Gpu& gpu : hello.gpus()) {
    // Which variable speaks to a vendor that this build does not know, nobody here can say.
    if (gpu.vendor() != v1::GPU_VENDOR_NVIDIA && gpu.vendor() != v1::GPU_VENDOR_AMD) continue;
    if (shape.gpus.size() == kMostGpus) break;
    model::GpuShape& to = shape.gpus.emplace_back();
    to.vendor = gpu.vendor() == v1::GPU_VENDOR_AMD ? model::GpuVendor::kAmd : model::GpuVendor::kNvidia;
    to.index = gpu.index();
    to.uuid = gpu.uuid();
    to.model = gpu.model();
    to.pci = gpu.pci();
    to.numa = gpu.has_numa() ? gpu.numa() : -1;
    to.cpus.assign(gpu.cpus().begin(), gpu.cpus().end());
  }
  model::set_gpu_masks(environment_of(hello.gpu_masks()), shape.gpu_masks);
  return shape;
}

void set_node_shape(const model::NodeShape& shape, v1::Hello& hello) {
  hello.set_memory_mib(shape.memory_mib);
  for (const model::CoreShape& core : shape.cores) {
    v1::Core* to = hello.add_cores();
    to->set_socket(core.socket);
    to->set_numa(core.numa);
    to->mutable_cpus()->Add(core.cpus.begin(), core.cpus.end());
  }
  for (const model::GpuShape& gpu : shape.gpus) {
    v1::Gpu* to = hello.add_gpus();
    to->set_vendor(gpu.vendor == model::GpuVendor::kAmd ? v1::GPU_VENDOR_AMD : v1::GPU_VENDOR_NVIDIA);
    to->set_index(gpu.index);
    to->set_uuid(gpu.uuid);
    to->set_model(gpu.model);
    to->set_pci(gpu.pci);
    if (gpu.numa >= 0) to->set_numa(gpu.numa);
    to->mutable_cpus()->Add(gpu.cpus.begin(), gpu.cpus.end());
  }
  set_environment(model::gpu_mask_variables(shape.gpu_masks), *hello.mutable_gpu_masks());
}

void set_environment(const EnvList& from, google::protobuf::RepeatedPtrField<v1::EnvVar>& to) {
  to.Clear();
  to.Reserve(static_cast<int>(from.size()));
  for (const auto& [name, value] : from) {
    v1::EnvVar* entry = to.Add();
    entry->set_name(name);
    entry->set_value(value);
  }
}

EnvList environment_of(const google::protobuf::RepeatedPtrField<v1::EnvVar>& from) {
  EnvList result;
  result.reserve(static_cast<std::size_t>(from.size()));
  for (const v1::EnvVar& entry : from) result.emplace_back(entry.name(), entry.value());
  return result;
}

void set_limits(const std::vector<model::Ulimit>& limits, v1::Launch& launch) {
  for (const model::Ulimit& limit : limits) {
    v1::ResourceLimit& to = *launch.add_limits();
    to.set_resource(limit.resource);
    to.set_soft(limit.soft);
    to.set_hard(limit.hard);
  }
}

std::vector<model::Ulimit> limits_of(const v1::Launch& launch) {
  std::vector<model::Ulimit> limits;
  for (const v1::ResourceLimit& limit : launch.limits()) {
    limits.push_back({limit.resource(), limit.soft(), limit.hard()});
  }
  return limits;
}

v1::Placement to_proto(const model::Placement& placement) {
  v1::Placement result;
  result.set_size(placement.size);
  for (const model::PlacedHost& host : placement.hosts) {
    v1::PlacedHost* to = result.add_hosts();
    to->set_name(host.host.name);
    to->set_slots(host.slots);
    for (const model::PlacedRank& rank : host.ranks) {
      v1::PlacedRank* placed = to->add_ranks();
      placed->set_rank(rank.rank);
      placed->set_local_rank(rank.local_rank);
      placed->set_local_size(rank.local_size);
      placed->set_cross_rank(rank.cross_rank);
      placed->set_cross_size(rank.cross_size);
      placed->set_host_index(rank.host_index);
    }
  }
  return result;
}

namespace {

struct KindPair {
  model::EndKind model;
  v1::RankEndKind wire;
};
constexpr KindPair kKinds[] = {
    {model::EndKind::kExited, v1::RANK_END_KIND_EXITED},
    {model::EndKind::kSignalled, v1::RANK_END_KIND_SIGNALLED},
    {model::EndKind::kStartFailed, v1::RANK_END_KIND_START_FAILED},
    {model::EndKind::kStopped, v1::RANK_END_KIND_STOPPED},
    {model::EndKind::kHostLost, v1::RANK_END_KIND_HOST_LOST},
};

}  // namespace

v1::RankEnd to_proto(const model::RankEnd& end) {
  v1::RankEnd result;
  result.set_rank(end.rank);
  result.set_host(end.host);
  result.set_pid(end.pid);
  result.set_pid_inside(end.pid_inside);
  result.set_kind(std::ranges::find(kKinds, end.kind, &KindPair::model)->wire);
  result.set_exit_code(end.exit_code);
  result.set_signal(end.signal);
  result.set_out_of_memory(end.out_of_memory);
  result.set_detail(end.detail);
  return result;
}

model::RankEnd rank_end_of(const v1::RankEnd& end) {
  model::RankEnd result;
  result.rank = end.rank();
  result.host = end.host();
  result.pid = static_cast<long>(end.pid());
  result.pid_inside = static_cast<long>(end.pid_inside());
  const auto* const kind = std::ranges::find(kKinds, end.kind(), &KindPair::wire);
  // A kind from a newer peer counts as a failure to start, the one that claims least about the process.
  result.kind = kind != std::end(kKinds) ? kind->model : model::EndKind::kStartFailed;
  result.exit_code = end.exit_code();
  result.signal = end.signal();
  result.out_of_memory = end.out_of_memory();
  result.detail = end.detail();
  return result;
}

model::RankEnd rank_end_of(const v1::RankExited& exited) {
  model::RankEnd end;
  end.rank = exited.rank();
  end.pid = static_cast<long>(exited.pid());
  end.pid_inside = static_cast<long>(exited.pid_inside());
  end.out_of_memory = exited.out_of_memory();
  const int status = exited.wait_status();
  if (WIFSIGNALED(status)) {
    // A stop sends these two. A rank that crashed while the stop was on its way, it did not end.
    const bool is_by_stop = WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGKILL;
    end.kind = exited.stopped_by_us() && is_by_stop ? model::EndKind::kStopped : model::EndKind::kSignalled;
    end.signal = WTERMSIG(status);
  } else {
    end.kind = exited.stopped_by_us() ? model::EndKind::kStopped : model::EndKind::kExited;
    end.exit_code = WEXITSTATUS(status);
  }
  return end;
}

model::RankEnd rank_end_of(const v1::RankStartFailed& failed) {
  model::RankEnd end;
  end.rank = failed.rank();
  end.kind = failed.stopped_by_us() ? model::EndKind::kStopped : model::EndKind::kStartFailed;
  end.exit_code = failed.exit_code();
  end.detail = base::printable(failed.message());
  return end;
}

}  // namespace muster::proto
