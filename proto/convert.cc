// All of convert.h, in its order: node shapes, environments, limits, containers, placements, ends of ranks.
// Each pair of functions stands alone.
#include "proto/convert.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <optional>

#include "base/strings.h"
#include "model/gpu_mask.h"
#include "model/pinning.h"

namespace muster::proto {

// Returns nullopt for a vendor that only newer builds know. This build does not know the variable that masks its GPUs.
std::optional<model::GpuVendor> vendor_of(v1::GpuVendor vendor) {
  switch (vendor) {
    case v1::GPU_VENDOR_NVIDIA:
      return model::GpuVendor::kNvidia;
    case v1::GPU_VENDOR_AMD:
      return model::GpuVendor::kAmd;
    case v1::GPU_VENDOR_INTEL:
      return model::GpuVendor::kIntel;
    default:
      return std::nullopt;
  }
}

v1::GpuVendor to_proto(model::GpuVendor vendor) {
  switch (vendor) {
    case model::GpuVendor::kAmd:
      return v1::GPU_VENDOR_AMD;
    case model::GpuVendor::kIntel:
      return v1::GPU_VENDOR_INTEL;
    case model::GpuVendor::kNvidia:
      break;
  }
  return v1::GPU_VENDOR_NVIDIA;
}

model::NodeShape node_shape_of(const v1::Hello& hello) {
  model::NodeShape shape;
  shape.memory_mib = hello.memory_mib();
  for (const v1::Core& core : hello.cores()) {
    if (core.cpus().empty()) continue;
    shape.cores.push_back({core.socket(), core.numa(), {core.cpus().begin(), core.cpus().end()}});
  }
  for (const v1::Gpu& gpu : hello.gpus()) {
    const auto vendor = vendor_of(gpu.vendor());
    if (!vendor) continue;
    if (shape.gpus.size() == model::kMostGpus) break;  // bounds the work that one agent can cause in the launcher
    model::GpuShape& to = shape.gpus.emplace_back();
    to.vendor = *vendor;
    to.index = gpu.index();
    to.uuid = gpu.uuid();
    to.model = gpu.model();
    to.pci = gpu.pci();
    to.numa = gpu.has_numa() ? gpu.numa() : -1;
    to.cpus.assign(gpu.cpus().begin(), gpu.cpus().end());
    to.tiles = std::clamp(gpu.tiles(), 1, model::kMostTiles);
    to.memory_mib = static_cast<long>(std::max<std::int64_t>(gpu.memory_mib(), 0));
    to.is_divided = gpu.divided();
    for (const v1::GpuPart& part : gpu.parts()) {
      if (to.parts.size() == std::size_t{model::kMostParts}) break;
      to.parts.push_back({part.uuid(), part.model(), static_cast<long>(std::max<std::int64_t>(part.memory_mib(), 0))});
    }
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
    to->set_vendor(to_proto(gpu.vendor));
    to->set_index(gpu.index);
    to->set_uuid(gpu.uuid);
    to->set_model(gpu.model);
    to->set_pci(gpu.pci);
    if (gpu.numa >= 0) to->set_numa(gpu.numa);
    to->mutable_cpus()->Add(gpu.cpus.begin(), gpu.cpus.end());
    if (gpu.tiles > 1) to->set_tiles(gpu.tiles);
    to->set_memory_mib(gpu.memory_mib);
    to->set_divided(gpu.is_divided);
    for (const model::GpuPart& part : gpu.parts) {
      v1::GpuPart* to_part = to->add_parts();
      to_part->set_uuid(part.uuid);
      to_part->set_model(part.model);
      to_part->set_memory_mib(part.memory_mib);
    }
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

v1::Container to_proto(const model::Container& container) {
  v1::Container result;
  result.set_image(container.image);
  result.set_program(container.program);
  for (const std::string& word : container.args) result.add_args(word);
  return result;
}

model::Container container_of(const v1::Container& container) {
  return {.image = container.image(),
          .program = container.program(),
          .args = {container.args().begin(), container.args().end()}};
}

void set_roles(const std::vector<model::RoleRanks>& from, google::protobuf::RepeatedPtrField<v1::RoleRanks>& to) {
  for (const model::RoleRanks& role : from) {
    v1::RoleRanks& added = *to.Add();
    added.set_name(role.name);
    added.set_first(role.first);
    added.set_count(role.count);
  }
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
  set_roles(placement.roles, *result.mutable_roles());
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

namespace {

model::EndFacts facts_of(const v1::EndFacts& facts) {
  return {.peak_memory_mib = facts.peak_memory_mib(),
          .free_memory_mib = facts.free_memory_mib(),
          .program = base::printable(facts.program()),
          .core_file = base::printable(facts.core_file()),
          .core_note = base::printable(facts.core_note()),
          .kernel_line = base::printable(facts.kernel_line())};
}

v1::EndFacts to_proto(const model::EndFacts& facts) {
  v1::EndFacts result;
  result.set_peak_memory_mib(facts.peak_memory_mib);
  result.set_free_memory_mib(facts.free_memory_mib);
  result.set_program(base::valid_utf8(facts.program));
  result.set_core_file(base::valid_utf8(facts.core_file));
  result.set_core_note(base::valid_utf8(facts.core_note));
  result.set_kernel_line(base::valid_utf8(facts.kernel_line));
  return result;
}

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
  if (end.abort_code) result.set_abort_code(*end.abort_code);
  result.set_without_finalize(end.without_finalize);
  result.set_spawn_refused(end.spawn_refused);
  if (end.facts != model::EndFacts()) *result.mutable_facts() = to_proto(end.facts);
  return result;
}

model::RankEnd rank_end_of(const v1::RankEnd& end) {
  model::RankEnd result;
  result.rank = end.rank();
  result.host = end.host();
  result.pid = static_cast<long>(end.pid());
  result.pid_inside = static_cast<long>(end.pid_inside());
  const auto* const kind = std::ranges::find(kKinds, end.kind(), &KindPair::wire);
  // Treat an unknown kind as a failure to start, because that claims least about the process.
  result.kind = kind != std::end(kKinds) ? kind->model : model::EndKind::kStartFailed;
  result.exit_code = end.exit_code();
  result.signal = end.signal();
  result.out_of_memory = end.out_of_memory();
  result.detail = end.detail();
  if (end.has_abort_code()) result.abort_code = end.abort_code();
  result.without_finalize = end.without_finalize();
  result.spawn_refused = end.spawn_refused();
  if (end.has_facts()) result.facts = facts_of(end.facts());
  return result;
}

void set_failed_hosts(const std::vector<model::FailedHost>& from,
                      google::protobuf::RepeatedPtrField<v1::FailedHost>& to) {
  to.Clear();
  for (const model::FailedHost& host : from) {
    v1::FailedHost& each = *to.Add();
    each.set_name(base::valid_utf8(host.name));
    each.set_reason(base::valid_utf8(host.reason));
    if (!host.usable_from) continue;
    const auto time = std::chrono::floor<std::chrono::milliseconds>(*host.usable_from).time_since_epoch().count();
    each.mutable_usable_from()->set_seconds(time / 1000);
    each.mutable_usable_from()->set_nanos(static_cast<int>(time % 1000 * 1'000'000));
  }
}

std::vector<model::FailedHost> failed_hosts_of(const google::protobuf::RepeatedPtrField<v1::FailedHost>& from) {
  std::vector<model::FailedHost> hosts;
  for (const v1::FailedHost& host : from) {
    model::FailedHost& each = hosts.emplace_back(model::FailedHost{.name = host.name(), .reason = host.reason()});
    if (!host.has_usable_from()) continue;
    const auto time = std::chrono::seconds(host.usable_from().seconds()) +
                      std::chrono::milliseconds(host.usable_from().nanos() / 1'000'000);
    each.usable_from = base::WallTime(std::chrono::duration_cast<base::WallTime::duration>(time));
  }
  return hosts;
}

model::GenerationBegan generation_of(const v1::GenerationBegan& began) {
  return {.number = began.number(),
          .from = began.from(),
          .to = began.to(),
          .added = {began.added().begin(), began.added().end()},
          .lost = {began.lost().begin(), began.lost().end()},
          .reason = began.reason(),
          .elapsed = std::chrono::milliseconds(began.elapsed_ms()),
          .former = {began.former().begin(), began.former().end()}};
}

model::FirstCollectiveEnded first_collective_of(const v1::FirstCollectiveEnded& ended) {
  return {.generation = ended.generation(), .elapsed = std::chrono::milliseconds(ended.elapsed_ms())};
}

model::WrongWorld wrong_world_of(const v1::WrongWorld& wrong) {
  model::WrongWorld to{.size = wrong.size(), .formed = {}, .reason = wrong.reason()};
  for (const v1::FormedWorld& formed : wrong.formed()) {
    to.formed.push_back(
        {.size = formed.size(), .ranks = {formed.ranks().begin(), formed.ranks().end()}, .source = formed.source()});
  }
  return to;
}

model::LateHost late_host_of(const v1::LateHost& late) {
  return {.host = late.host(),
          .late = late.late(),
          .operations = late.operations(),
          .median = std::chrono::microseconds(late.median_us())};
}

model::HostsLeftOut left_out_of(const v1::HostsLeftOut& left_out) {
  return {.hosts = {left_out.hosts().begin(), left_out.hosts().end()},
          .reasons = {left_out.reasons().begin(), left_out.reasons().end()}};
}

model::RankEnd rank_end_of(const v1::RankExited& exited) {
  model::RankEnd end;
  end.rank = exited.rank();
  end.pid = static_cast<long>(exited.pid());
  end.pid_inside = static_cast<long>(exited.pid_inside());
  end.out_of_memory = exited.out_of_memory();
  const int status = exited.wait_status();
  if (exited.has_abort_code()) {
    // The rank called MPI_Abort, so it ended by itself, even if the agent had to end a wrapper that continued.
    end.kind = model::EndKind::kExited;
    end.abort_code = exited.abort_code();
    end.spawn_refused = exited.spawn_refused();
    end.exit_code = model::abort_status(exited.abort_code());
  } else if (WIFSIGNALED(status)) {
    // A stop sends only these two signals. If another signal ended the rank during a stop, the rank crashed by itself.
    const bool is_by_stop = WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGKILL;
    end.kind = exited.stopped_by_us() && is_by_stop ? model::EndKind::kStopped : model::EndKind::kSignalled;
    end.signal = WTERMSIG(status);
  } else {
    end.kind = exited.stopped_by_us() ? model::EndKind::kStopped : model::EndKind::kExited;
    end.exit_code = WEXITSTATUS(status);
    end.without_finalize = exited.without_finalize() && end.kind == model::EndKind::kExited;
  }
  if (exited.has_facts() && end.kind != model::EndKind::kStopped) end.facts = facts_of(exited.facts());
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
