// Collectives of one communicator on buffers of GPUs: what is chosen once (the GPU, the path), the stream that
// libmuster's work on this rank's GPU runs in, and how an operation begins and ends there.
//
// An operation: begin() behind what the caller's stream has, then a Route's call, perhaps with kernels before and after
// it on stream(), then finish(). One thread at a time, the communicator's worker or the engine's. An error ends the
// communicator for all its ranks.
//
//   team->begin(ready); team->route().allreduce(task); team->finish();      (team->run() does these three)
#pragma once

#include <chrono>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "collectives/device/nccl_route.h"
#include "collectives/device/path.h"
#include "collectives/device/route.h"
#include "collectives/group/communicator.h"

namespace muster::collectives::device {

class DeviceTeam {
 public:
  // Collective. `comm` outlives the team. FAILED_PRECONDITION, on all ranks: one of them has no driver, or no such GPU,
  // or the path that the user has named cannot be taken; the communicator goes on then. Other errors end it.
  // `part`: of another team's split(); used where all ranks bring theirs, and go by NCCL.
  static base::Result<std::unique_ptr<DeviceTeam>> attach(Communicator& comm, int ordinal, NcclPart part = {});
  // What the device has not finished after a failure (a stream of the caller's that it depends on does not go on) is
  // left to the driver: freeing it would wait for that.
  ~DeviceTeam();
  DeviceTeam(const DeviceTeam&) = delete;
  DeviceTeam& operator=(const DeviceTeam&) = delete;
  // Of the calling thread's process: how many GPUs it sees; 0 without a driver.
  static int count_gpus();

  Path path() const { return choice_.path; }
  // Why it is no faster one, and what has become of this rank's kernels; empty: there is nothing to say.
  const std::string& why() const { return choice_.why; }
  const Gpu& gpu() const { return *ground_.gpu; }
  const std::shared_ptr<const Gpu>& shared_gpu() const { return ground_.gpu; }
  const Kernels* kernels() const { return ground_.kernels; }  // null: none could be loaded
  bool all_have_kernels() const { return all_have_kernels_; }
  void* stream() const { return ground_.stream; }
  Route& route() { return *route_; }

  // Communicator::split(), which makes a part of NCCL's communicator as well, where this team has one. To be called by
  // the communicator's worker, as operations are.
  struct Split {
    std::shared_ptr<Communicator> communicator;  // null: none for this rank
    NcclPart nccl;
  };
  base::Result<Split> split(int color, int key, Failure* why = nullptr);

  // A mark behind all that `stream` (the caller's, of this GPU) has at this moment. Any thread.
  base::Result<Event> mark(void* stream) const { return device::mark(ground_.gpu, stream); }
  // stream() goes on when the device has come to all these.
  base::Status begin(std::span<void* const> ready);
  // Waits until the device has done all that stream() has.
  base::Status finish();
  // Whether the device has done all that it was given. False after some failures only: to free what it may use, or
  // memory that the driver waits for the device to free, would not return then.
  bool is_quiet() { return is_quiet_ || becomes_quiet(std::chrono::milliseconds(0)); }
  // begin(), `operation`, finish(); ends the communicator when one of them fails.
  template <class Operation>
  base::Status run(std::span<void* const> ready, const Operation& operation) {
    // What was queued behind a failure fails at once, and leaves the device alone.
    if (const Failure ended = ground_.comm.failure(); ended.code != base::Code::kOk) return {ended.code, ended.message};
    const base::Status done = run_now(ready, operation);
    return done.ok() ? done : fail(done);
  }

 private:
  template <class Operation>
  base::Status run_now(std::span<void* const> ready, const Operation& operation) {
    try {
      MUSTER_RETURN_IF_ERROR(begin(ready));
      MUSTER_RETURN_IF_ERROR(operation(*route_));
      return finish();
    } catch (const std::bad_alloc&) {  // the others are in the operation, and what it has begun is on the device
      return no_memory();
    }
  }
  explicit DeviceTeam(Communicator& comm) : ground_{comm, nullptr, nullptr, nullptr} {}
  base::Status no_memory() const;
  base::Status start(int ordinal);
  base::Status load(int ordinal);
  base::Status choose(const base::Status& started, const NcclPart& part);
  base::Status choose_among(const std::vector<Facts>& all);
  void tell_of_choice();
  base::Result<std::vector<Facts>> gather(const Facts& own);
  base::Status make_route(NcclPart part);
  base::Status make_staged_route();
  base::Status make_nccl_route(NcclPart part);
  base::Status make_shared_route();
  base::Status fail(const base::Status& status);
  void wait_for_news(const base::Status& failed) const;
  bool becomes_quiet(std::chrono::milliseconds time);

  Ground ground_;
  Choice choice_;
  base::Status kernels_loaded_;  // NOT_FOUND: built without any
  bool all_have_kernels_ = false;
  bool all_have_parts_ = false;
  bool is_named_ = false;                   // the path, by the user
  std::shared_ptr<const Kernels> kernels_;  // of all teams on this GPU
  std::shared_ptr<const NcclApi> nccl_;
  bool is_quiet_ = true;  // false: after a failure, and the device was still at work
  Stream stream_;
  Event done_;
  DeviceMemory trial_;               // of try_ipc(), to the end
  std::unique_ptr<Route> route_;     // uses all above: ends first
  NcclRoute* nccl_route_ = nullptr;  // the same, where it is one
};

}  // namespace muster::collectives::device
