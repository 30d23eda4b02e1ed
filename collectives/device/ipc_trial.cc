#include "collectives/device/ipc_trial.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/device/ipc_memory.h"

namespace muster::collectives::device {
namespace {

// The messages between ranks. Both are trivially copyable.
struct Offer {
  IpcMemoryHandle handle{};
  std::uint64_t is_made = 0;
};
struct Verdict {
  char why[252] = {};  // empty if the mapping works
  std::uint32_t lacks_memory = 0;
};

}  // namespace

// A test of neighbours is enough: if any two ranks cannot reach each other, then two neighbours in the ring cannot.
base::Result<IpcTrial> try_ipc(Communicator& comm, const std::shared_ptr<const Gpu>& gpu) {
  Offer own;
  auto block = device::allocate(gpu, IpcMemory::kBlock);
  base::Status done = block.status();
  if (done.ok()) {
    done = gpu->call("cuIpcGetMemHandle", gpu->api().ipc_get_memory_handle, &own.handle, block->get());
  }
  own.is_made = done.ok() ? 1 : 0;
  // A rank that got the handle may have the block mapped until all have sent their verdicts. Freeing the block before
  // that is undefined.
  const auto leave_block = [&block](const base::Status& why) {
    if (block.ok()) block->leave();
    return why;
  };
  const auto offers = gather_all(comm, own);
  if (!offers.ok()) return leave_block(offers.status());
  const Offer& next = (*offers)[static_cast<std::size_t>((comm.rank() + 1) % comm.size())];
  if (done.ok() && comm.size() > 1 && next.is_made != 0) done = open_memory(gpu, next.handle).status();
  Verdict verdict;
  if (!done.ok()) {
    const std::string why(done.message());
    std::memcpy(verdict.why, why.data(), std::min(why.size(), sizeof verdict.why - 1));
    verdict.lacks_memory = done.code() == base::Code::kResourceExhausted ? 1 : 0;
  }
  // From here on no rank has another rank's block mapped.
  const auto verdicts = gather_all(comm, verdict);
  if (!verdicts.ok()) return leave_block(verdicts.status());
  IpcTrial trial;
  if (block.ok()) trial.block = std::move(*block);
  for (std::size_t rank = 0; rank < verdicts->size() && trial.why_not.empty(); ++rank) {
    const Verdict& one = (*verdicts)[rank];
    if (one.why[0] == 0) continue;
    const std::string reason = fmt::format("rank {}: {}", comm.world_rank(static_cast<int>(rank)), one.why);
    trial.lacks_memory = one.lacks_memory != 0;
    trial.why_not = trial.lacks_memory ? fmt::format("a GPU has no memory left ({})", reason)
                                       : fmt::format("CUDA IPC does not work between the ranks ({})", reason);
  }
  return trial;
}

}  // namespace muster::collectives::device
