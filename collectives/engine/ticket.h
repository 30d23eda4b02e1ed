// What a submission to the engine becomes: done once, waited for by any number of threads.
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
#include "collectives/transport/abort.h"

namespace muster::collectives::inline engine {

// A tensor whose size only the engine knows (allgather, alltoall, reducescatter).
struct Output {
  std::unique_ptr<std::byte[]> data = {};  // of the host
  void* on_gpu = nullptr;                  // of operations on a GPU: the caller's, or `memory`
  device::DeviceMemory memory = {};
  TensorSpec spec = {};

  const void* place() const { return data != nullptr ? data.get() : on_gpu; }
};

class Ticket {
 public:
  // What the caller gets of it. When that is gone so are the outputs: freed by the caller's thread, or not before the
  // engine ends. To free memory of a GPU waits for streams, and these perhaps for the engine's thread.
  static std::shared_ptr<Ticket> given_out(std::shared_ptr<Ticket> ticket);

  // nullopt: not done within `time`, and goes on. Gives its core away for a moment before it sleeps.
  std::optional<base::Status> wait_for(std::chrono::milliseconds time);
  bool is_done() const { return is_done_.load(std::memory_order_acquire); }

  // Once it is done, and OK.
  const std::vector<Output>& outputs() const { return outputs_; }
  const std::vector<std::int64_t>& received_splits() const { return received_splits_; }  // of an alltoall
  int last_joined() const { return last_joined_; }                                       // of a join
  // Once it is done, and not OK because the engine has ended: whose doing that was.
  const Failure& failure() const { return failure_; }

 private:
  friend class Engine;
  friend class Executor;
  void finish(base::Status status, Failure whose = {});
  void forget();
  // Behind finish(): the outputs, if the caller has gone before.
  std::vector<Output> take_if_forgotten();

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

// What a rank gives the engine. Tensors stay the caller's, and as they are until the ticket is done.
struct Tensor {
  const void* in = nullptr;
  // Of allreduce and broadcast; may be `in`. Of what makes a result on a GPU: room for it as it is where all ranks have
  // what this one has; null: none.
  void* out = nullptr;
};
// Memory of the caller's for a result on a GPU: of tensor `index`, so many bytes (not 0). Null: there is none. Called
// by the engine's thread.
using Allocate = std::function<void*(int index, std::size_t bytes)>;
struct Submission {
  std::string name;
  Signature signature;
  std::vector<Tensor> tensors;  // one for each of the signature
  // Of tensors on a GPU: which one, -1: any (all are empty); and the device's mark behind what computes them.
  int gpu = -1;
  std::shared_ptr<const device::Event> ready = {};
  Allocate allocate = {};  // empty: results on a GPU are the ticket's
};

}  // namespace muster::collectives::engine
