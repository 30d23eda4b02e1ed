#include "collectives/device/path.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "collectives/device/kernel_arguments.h"

namespace muster::collectives::device {
namespace {

constexpr std::string_view kNames[] = {"nccl", "ipc", "staged"};
constexpr std::int32_t kOldestNccl = 21400;  // 2.14 is the first version with non-blocking communicators

// The next functions return why the ranks cannot take a path. Empty means that they can.
std::string why_not_nccl(std::span<const Facts> ranks) {
  std::set<std::string> gpus;
  for (const Facts& rank : ranks) {
    if (rank.nccl_version == 0) return "libnccl.so.2 cannot be loaded on every rank";
    if (rank.nccl_version < kOldestNccl) return "NCCL is older than 2.14";
    if (rank.nccl_version != ranks.front().nccl_version) return "ranks have different versions of NCCL";
    if (rank.has_kernels == 0) return "libmuster has no kernels for the GPU of every rank";
    if (!gpus.emplace(rank.uuid.bytes, sizeof rank.uuid.bytes).second) return "ranks share a GPU";
  }
  return "";
}

std::string why_not_ipc(std::span<const Facts> ranks, int hosts, std::string_view broken) {
  if (hosts != 1) return "the ranks are on several hosts";
  if (ranks.size() > kMostSharers) return fmt::format("there are more than {} ranks", kMostSharers);
  for (const Facts& rank : ranks) {
    if (rank.has_kernels == 0) return "libmuster has no kernels for the GPU of every rank";
    if (rank.reaches_all == 0) return "not every GPU reaches the memory of the others";
  }
  return std::string(broken);
}

}  // namespace

std::string_view name_of(Path path) {
  return kNames[static_cast<std::size_t>(path)];
}

base::Result<std::optional<Path>> parse_path(std::string_view name) {
  if (name.empty() || name == "auto") return std::optional<Path>();
  const auto* const found = std::ranges::find(kNames, name);
  if (found != std::end(kNames)) return std::optional(static_cast<Path>(found - std::begin(kNames)));
  return base::invalid_argument("MUSTER_DEVICE_PATH={}: unknown path; use one of: auto, nccl, ipc, staged", name);
}

base::Result<Choice> choose_path(std::span<const Facts> ranks, int hosts, std::string_view broken_ipc) {
  const std::int32_t forced = ranks.front().forced;
  for (const Facts& rank : ranks) {
    if (rank.forced == forced) continue;
    return base::Status(base::Code::kFailedPrecondition, "is MUSTER_DEVICE_PATH the same for all ranks?");
  }
  const std::string nccl = why_not_nccl(ranks);
  const std::string ipc = why_not_ipc(ranks, hosts, broken_ipc);
  const auto wanted = static_cast<Path>(forced);
  if (forced >= 0) {
    const std::string& why_not = wanted == Path::kNccl ? nccl : ipc;
    if (wanted == Path::kStaged || why_not.empty()) return Choice{wanted, ""};
    return base::failed_precondition("MUSTER_DEVICE_PATH={}: {}", name_of(wanted), why_not);
  }
  if (nccl.empty()) return Choice{Path::kNccl, ""};
  if (ipc.empty()) return Choice{Path::kIpc, fmt::format("not nccl: {}", nccl)};
  return Choice{Path::kStaged, fmt::format("not nccl: {}; not ipc: {}", nccl, ipc)};
}

}  // namespace muster::collectives::device
