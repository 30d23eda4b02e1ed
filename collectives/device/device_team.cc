// A GPU team: choice of GPU and path, and the begin, end and failure of operations.
// Read attach(), choose() and make_route() first, then begin() and finish(), then fail().
#include "collectives/device/device_team.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "base/env.h"
#include "collectives/call/notice.h"
#include "collectives/device/ipc_trial.h"
#include "collectives/device/shared_gpu.h"

namespace muster::collectives::device {
namespace {

constexpr std::chrono::milliseconds kPatience{300};        // how long to wait for the device after a failure
constexpr std::chrono::milliseconds kEndReportTime{1000};  // from the end of a rank to the report of that end

// Objects of teams that ended before their devices had finished. They are never freed.
struct Abandoned {
  std::shared_ptr<const Kernels> kernels;
  Stream stream;
  Event done;
  std::unique_ptr<Route> route;
};

// All teams on a GPU share its kernels. If a module is loaded while streams are held, its first launches may wait for
// these streams.
base::Result<std::shared_ptr<const Kernels>> kernels_of(const std::shared_ptr<const Gpu>& gpu) {
  static std::mutex mutex;
  static auto* const kLoaded = new std::map<int, std::weak_ptr<const Kernels>>;  // by ordinal
  const std::lock_guard lock(mutex);
  if (auto found = (*kLoaded)[gpu->ordinal()].lock()) return found;
  MUSTER_ASSIGN_OR_RETURN(std::shared_ptr<const Kernels> made, Kernels::load(gpu));
  (*kLoaded)[gpu->ordinal()] = made;
  return made;
}

// Warns once for each process and reason.
void warn_of_detour(std::once_flag& warned, std::string_view why) {
  std::call_once(warned, [&] {
    print_notice(fmt::format("collectives on GPU memory go through the host, which is slower: {}", why));
  });
}

}  // namespace

base::Result<std::unique_ptr<DeviceTeam>> DeviceTeam::attach(Communicator& comm, int ordinal, NcclPart part) {
  std::unique_ptr<DeviceTeam> team(new DeviceTeam(comm));
  MUSTER_RETURN_IF_ERROR(team->choose(team->start(ordinal), part));
  const base::Status made = team->make_route(std::move(part));
  if (made.ok()) return team;
  // All ranks get this error, so the communicator stays usable.
  if (made.code() == base::Code::kFailedPrecondition && comm.failure().code == base::Code::kOk) return made;
  return team->fail(made.with_context(fmt::format("collectives on the GPU of rank {}", comm.world_rank(comm.rank()))));
}

DeviceTeam::~DeviceTeam() {
  if (is_quiet()) return;
  trial_.leave();
  static std::mutex mutex;
  static auto* const kAbandoned = new std::vector<Abandoned>;
  const std::lock_guard lock(mutex);
  kAbandoned->push_back({std::move(kernels_), std::move(stream_), std::move(done_), std::move(route_)});
}

int DeviceTeam::count_gpus() {
  int count = 0;
  const auto api = CudaApi::load();
  return api.ok() && (*api)->device_get_count(&count) == kCudaSuccess ? count : 0;
}

base::Status DeviceTeam::start(int ordinal) {
  MUSTER_ASSIGN_OR_RETURN(auto api, CudaApi::load());
  MUSTER_ASSIGN_OR_RETURN(ground_.gpu, Gpu::open(std::move(api), ordinal));
  MUSTER_ASSIGN_OR_RETURN(stream_, make_stream(ground_.gpu));
  MUSTER_ASSIGN_OR_RETURN(done_, make_event(ground_.gpu));
  ground_.stream = stream_.get();
  // Kernels and NCCL are optional. Without them the ranks take another path.
  auto kernels = kernels_of(ground_.gpu);
  kernels_loaded_ = kernels.status();
  if (kernels.ok()) kernels_ = std::move(*kernels);
  ground_.kernels = kernels_.get();
  if (auto nccl = NcclApi::load(); nccl.ok()) nccl_ = std::move(*nccl);
  return base::ok_status();
}

base::Result<std::vector<Facts>> DeviceTeam::gather(const Facts& own) {
  std::vector<Facts> all(static_cast<std::size_t>(ground_.comm.size()));
  const std::vector<std::size_t> counts(all.size(), sizeof own);
  MUSTER_RETURN_IF_ERROR(ground_.comm.allgather(&own, all.data(), counts, DType::kU8, true));
  return all;
}

// Every rank calls this, even if it cannot use its GPU, so that the other ranks learn of it.
base::Status DeviceTeam::choose(const base::Status& started, const NcclPart& part) {
  const auto forced = parse_path(base::env_var("MUSTER_DEVICE_PATH").value_or(""));
  Facts own;
  if (started.ok() && forced.ok()) {
    own.is_ready = 1;
    own.uuid = ground_.gpu->uuid();
    own.nccl_version = nccl_ == nullptr ? 0 : nccl_->version;
    own.forced = *forced ? static_cast<std::int32_t>(**forced) : -1;
    own.has_kernels = kernels_ != nullptr ? 1 : 0;
    own.has_part = !part.comm.is_empty() && part.ordinal == ground_.gpu->ordinal() ? 1 : 0;
  }
  MUSTER_ASSIGN_OR_RETURN(std::vector<Facts> all, gather(own));
  MUSTER_RETURN_IF_ERROR(started);
  MUSTER_RETURN_IF_ERROR(forced.status());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].is_ready != 0) continue;
    return base::failed_precondition("rank {} has no GPU that it can use: see the error of that rank",
                                     ground_.comm.world_rank(static_cast<int>(rank)));
  }
  const bool reaches_all =
      std::ranges::all_of(all, [this](const Facts& rank) { return ground_.gpu->reaches(rank.uuid); });
  own.reaches_all = reaches_all ? 1 : 0;
  MUSTER_ASSIGN_OR_RETURN(all, gather(own));
  all_have_kernels_ = std::ranges::all_of(all, [](const Facts& rank) { return rank.has_kernels != 0; });
  all_have_parts_ = std::ranges::all_of(all, [](const Facts& rank) { return rank.has_part != 0; });
  MUSTER_RETURN_IF_ERROR(choose_among(all));
  is_named_ = own.forced >= 0;
  report_missing_kernels();
  return base::ok_status();
}

// Tests CUDA IPC only if the ranks would use it.
base::Status DeviceTeam::choose_among(const std::vector<Facts>& all) {
  MUSTER_ASSIGN_OR_RETURN(choice_, choose_path(all, ground_.comm.hosts()));
  if (choice_.path != Path::kIpc) return base::ok_status();
  MUSTER_ASSIGN_OR_RETURN(IpcTrial trial, try_ipc(ground_.comm, ground_.gpu));
  trial_ = std::move(trial.block);
  if (trial.why_not.empty()) return base::ok_status();
  MUSTER_ASSIGN_OR_RETURN(choice_, choose_path(all, ground_.comm.hosts(), trial.why_not));
  if (ground_.comm.rank() != 0) return base::ok_status();
  static std::once_flag warned;
  warn_of_detour(warned, trial.why_not + (trial.lacks_memory ? "" : ". Do the ranks run in separate containers?"));
  return base::ok_status();
}

// Without kernels the ranks lose the faster paths, but nothing fails.
void DeviceTeam::report_missing_kernels() {
  if (kernels_loaded_.ok()) return;
  const std::string reason =
      fmt::format("rank {}: {}", ground_.comm.world_rank(ground_.comm.rank()), kernels_loaded_.message());
  choice_.why += (choice_.why.empty() ? "" : "; ") + reason;
  // If the library was built without kernels, only one rank reports it.
  const bool is_built_without = kernels_loaded_.code() == base::Code::kNotFound;
  static std::once_flag warned;
  if (!is_named_ && (!is_built_without || ground_.comm.rank() == 0)) warn_of_detour(warned, reason);
}

// If a GPU has no memory for a path, treat that path as unavailable.
base::Status DeviceTeam::make_route(NcclPart part) {
  if (choice_.path == Path::kStaged) return make_staged_route();
  const base::Status made = choice_.path == Path::kNccl ? make_nccl_route(std::move(part)) : make_shared_route();
  if (made.code() != base::Code::kFailedPrecondition || ground_.comm.failure().code != base::Code::kOk) return made;
  const std::string_view name = name_of(choice_.path);
  if (is_named_) return base::error(made.code(), "MUSTER_DEVICE_PATH={}: {}", name, made.message());
  const std::string why = fmt::format("not {}: {}", name, made.message());
  choice_ = {Path::kStaged, choice_.why + (choice_.why.empty() ? "" : "; ") + why};
  static std::once_flag warned;
  if (ground_.comm.rank() == 0) warn_of_detour(warned, why);
  return make_staged_route();
}

base::Status DeviceTeam::make_staged_route() {
  MUSTER_ASSIGN_OR_RETURN(route_, Staged::make(ground_));
  return base::ok_status();
}

base::Status DeviceTeam::make_shared_route() {
  MUSTER_ASSIGN_OR_RETURN(route_, SharedGpu::make(ground_));
  return base::ok_status();
}

// Make the route before NCCL begins. So fail() can report to the other ranks first and then abort, which may take long.
base::Status DeviceTeam::make_nccl_route(NcclPart part) {
  MUSTER_ASSIGN_OR_RETURN(auto made, NcclRoute::make(ground_, nccl_));
  nccl_route_ = made.get();
  route_ = std::move(made);
  if (!all_have_parts_) return nccl_route_->form();
  return nccl_route_->adopt(std::move(part));
}

base::Result<DeviceTeam::Split> DeviceTeam::split(int color, int key, Failure* why) {
  Split made;
  const auto split_nccl = [&] {
    if (nccl_route_ == nullptr) return base::ok_status();
    return run({}, [&](Route&) {
      MUSTER_ASSIGN_OR_RETURN(made.nccl, nccl_route_->split(color, key));
      return base::ok_status();
    });
  };
  MUSTER_ASSIGN_OR_RETURN(made.communicator, ground_.comm.split(color, key, why, split_nccl));
  return made;
}

// An error of the driver or NCCL may result from the end of a rank whose memory is mapped or whose connection broke.
// Such an error names neither the rank nor the reason, so wait for the report of that end.
void DeviceTeam::wait_for_report(const base::Status& failed) const {
  if (failed.code() != base::Code::kInternal || path() == Path::kStaged || ground_.comm.size() == 1) return;
  const Watch watch(ground_.comm);
  const auto end = std::chrono::steady_clock::now() + kEndReportTime;
  while (std::chrono::steady_clock::now() < end && watch.pause().ok()) {
  }
}

// Reports why this rank stops, for ranks that wait for it. An earlier failure of another rank takes precedence. A
// deadline blames no rank, since none is known.
base::Status DeviceTeam::fail(const base::Status& status) {
  wait_for_report(status);
  if (ground_.comm.failure().code == base::Code::kOk) {
    World& world = ground_.comm.world();
    const bool is_ours = status.code() != base::Code::kDeadlineExceeded;
    ground_.comm.cancel(
        {status.code(), is_ours ? world.rank() : -1, is_ours ? world.member(world.rank()).host : "", status.message()});
  }
  if (route_ != nullptr) {
    route_->abort();
    // The caller may free its buffers once it has the error.
    is_quiet_ = becomes_quiet(kPatience);
  }
  const Failure failure = ground_.comm.failure();
  return {failure.code, failure.message};
}

// Returns whether the device has done all its work within `time`.
bool DeviceTeam::becomes_quiet(std::chrono::milliseconds time) {
  const CudaApi& api = ground_.gpu->api();
  const Gpu::Current current(*ground_.gpu);
  const base::Status gathered = route_->gather();
  if (!gathered.ok() || api.event_record(done_.get(), ground_.stream) != kCudaSuccess)
    return true;  // the device is unusable, so no work runs
  return wait_for(*ground_.gpu, done_.get(), time) != kCudaNotReady;
}

base::Status DeviceTeam::no_memory() const {
  return base::resource_exhausted("rank {}: the host ran out of memory in an operation on a GPU",
                                  ground_.comm.world_rank(ground_.comm.rank()));
}

base::Status DeviceTeam::begin(std::span<void* const> ready) {
  for (void* const event : ready) {
    MUSTER_RETURN_IF_ERROR(
        ground_.gpu->call("cuStreamWaitEvent", ground_.gpu->api().stream_wait_event, ground_.stream, event, 0U));
  }
  return route_->mark_begin();
}

base::Status DeviceTeam::finish() {
  MUSTER_RETURN_IF_ERROR(
      ground_.gpu->call("cuEventRecord", ground_.gpu->api().event_record, done_.get(), ground_.stream));
  return wait_until_done(ground_, done_.get(), route_.get());
}

}  // namespace muster::collectives::device
