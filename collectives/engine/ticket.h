// The result of a submission to the engine. It is finished once; any number of threads may wait for it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "collectives/device/gpu.h"
#include "collectives/engine/signature.h"
#include "collectives/join/status_page.h"
#include "collectives/transport/abort.h"

namespace muster::collectives::inline engine {

// A tensor whose size only the engine knows (allgather, alltoall, reducescatter), or a buffer that the ranks of a host
// share.
struct Output {
  std::unique_ptr<std::byte[]> data = {};  // in host memory
  std::shared_ptr<std::byte> shared = {};  // of a kBuffer
  void* on_gpu = nullptr;                  // for operations on a GPU: the caller's memory, or `memory`
  device::DeviceMemory memory = {};
  TensorSpec spec = {};

  const void* place() const {
    if (shared != nullptr) return shared.get();
    return data != nullptr ? data.get() : on_gpu;
  }
};

class Ticket {
 public:
  // Returns the caller's handle of `ticket`. When the caller drops the handle, the outputs are dropped, too. The thread
  // that drops the handle frees them, or the engine does when it ends. The engine's thread must not free them: freeing
  // GPU memory waits for streams, and those streams may wait for the engine's thread.
  static std::shared_ptr<Ticket> handle_of(std::shared_ptr<Ticket> ticket);

  // Returns nullopt if the ticket is not done within `time`; the operation then continues. The calling thread yields
  // its core briefly before it sleeps.
  std::optional<base::Status> wait_for(std::chrono::milliseconds time);
  bool is_done() const { return is_done_.load(std::memory_order_acquire); }

  // Call the following only after the ticket is done and OK.
  const std::vector<Output>& outputs() const { return outputs_; }
  const std::vector<std::int64_t>& received_splits() const { return received_splits_; }  // only for an alltoall
  int last_joined() const { return last_joined_; }                                       // only for a join
  // Returns the failure that ended the engine, if the ticket failed for that reason.
  const Failure& failure() const { return failure_; }

 private:
  friend class Engine;
  friend class Executor;
  void finish(base::Status status, Failure failure = {});
  void forget();
  // Called after finish(). Returns the outputs if the caller has dropped its handle before.
  std::vector<Output> release_if_forgotten();

  base::RankPage* page_ = nullptr;  // counts the end there, unless it is null
  std::vector<Output> outputs_;
  std::vector<std::int64_t> received_splits_;
  int last_joined_ = -1;
  base::Status status_;
  Failure failure_;
  std::atomic<bool> is_done_{false};
  bool is_forgotten_ = false;
  std::mutex mutex_;
  std::condition_variable done_;
};

// A rank's submission. The caller owns the tensors and must not change them until the ticket is done.
struct Tensor {
  const void* in = nullptr;
  // For allreduce and broadcast: the result, which may be `in`. For operations on a GPU whose results differ in size:
  // room for the result if all ranks submit tensors like this one. Null if the caller has no such room.
  void* out = nullptr;
};
// Returns the caller's memory for a result on a GPU: for tensor `index`, of `bytes` bytes (not 0). Null if the caller
// has none. The engine's thread calls it.
using Allocate = std::function<void*(int index, std::size_t bytes)>;
struct Submission {
  std::string name;
  Signature signature;
  std::vector<Tensor> tensors;  // one for each tensor of the signature
  // For tensors on a GPU: the GPU's ordinal, or -1 if all tensors are empty and any GPU will do. `ready` is a device
  // event that follows the work that computes the tensors.
  int gpu = -1;
  std::shared_ptr<const device::Event> ready = {};
  Allocate allocate = {};  // empty means that the ticket owns results on a GPU
};

}  // namespace muster::collectives::engine
