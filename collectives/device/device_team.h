// Collectives of one communicator on GPU buffers. A team chooses the GPU and the path once. It owns the stream for
// libmuster's work on this rank's GPU, and begins and ends each operation.
//
// An operation calls begin(), which waits for the caller's stream, then a method of Route, then finish(). Kernels may
// run on stream() before and after the Route's call.
//
// Thread: one at a time, the communicator's worker or the engine's thread.
// Errors: an error ends the communicator for all its ranks.
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
  // Collective. `comm` must outlive the team. FAILED_PRECONDITION, on all ranks, if a rank has no driver or no GPU
  // `ordinal`, or if the path that the user named is unavailable. The communicator then stays usable; other errors end
  // it. `part` comes from another team's split(). It is used only if every rank passes one and the path is NCCL.
  static base::Result<std::unique_ptr<DeviceTeam>> attach(Communicator& comm, int ordinal, NcclPart part = {});
  // After a failure the device may have unfinished work, such as work behind a caller's stream that does not go on. The
  // destructor leaves such work's memory to the driver, because freeing it would wait.
  ~DeviceTeam();
  DeviceTeam(const DeviceTeam&) = delete;
  DeviceTeam& operator=(const DeviceTeam&) = delete;
  // Returns how many GPUs this process sees; 0 without a driver.
  static int count_gpus();

  Path path() const { return choice_.path; }
  // Returns why no faster path was chosen, and why this rank has no kernels. Empty if there is nothing to report.
  const std::string& why() const { return choice_.why; }
  const Gpu& gpu() const { return *ground_.gpu; }
  const std::shared_ptr<const Gpu>& shared_gpu() const { return ground_.gpu; }
  const Kernels* kernels() const { return ground_.kernels; }  // null if none could be loaded
  bool all_have_kernels() const { return all_have_kernels_; }
  void* stream() const { return ground_.stream; }
  Route& route() { return *route_; }

  // Does what Communicator::split() does. If this team has an NCCL communicator, it splits that one, too. The
  // communicator's worker must call it, as it does operations.
  struct Split {
    std::shared_ptr<Communicator> communicator;  // null if this rank gets none
    NcclPart nccl;
  };
  base::Result<Split> split(int color, int key, Failure* why = nullptr);

  // Returns an event behind all work that `stream` has now. `stream` is the caller's and on this GPU. Any thread may
  // call.
  base::Result<Event> mark(void* stream) const { return device::mark(ground_.gpu, stream); }
  // Makes stream() wait until the device has reached all these events.
  base::Status begin(std::span<void* const> ready);
  // Waits until the device has done all work on stream().
  base::Status finish();
  // Returns whether the device has done all its work. It is false only after some failures. Then freeing memory that
  // the work uses would never return, nor would any call for which the driver waits for the device.
  bool is_quiet() { return is_quiet_ || becomes_quiet(std::chrono::milliseconds(0)); }
  // Calls begin(), `operation` and finish(). Ends the communicator if one of them fails.
  template <class Operation>
  base::Status run(std::span<void* const> ready, const Operation& operation) {
    // Operations that were queued when another one failed must fail at once and give the device no work.
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
      // If memory runs out, fail as for any other error, because the other ranks are in the operation already.
    } catch (const std::bad_alloc&) {
      return no_memory();
    }
  }
  explicit DeviceTeam(Communicator& comm) : ground_{comm, nullptr, nullptr, nullptr} {}
  base::Status no_memory() const;
  base::Status start(int ordinal);
  base::Status load(int ordinal);
  base::Status choose(const base::Status& started, const NcclPart& part);
  base::Status choose_among(const std::vector<Facts>& all);
  void report_missing_kernels();
  base::Result<std::vector<Facts>> gather(const Facts& own);
  base::Status make_route(NcclPart part);
  base::Status make_staged_route();
  base::Status make_nccl_route(NcclPart part);
  base::Status make_shared_route();
  base::Status fail(const base::Status& status);
  void wait_for_report(const base::Status& failed) const;
  bool becomes_quiet(std::chrono::milliseconds time);

  Ground ground_;
  Choice choice_;
  base::Status kernels_loaded_;  // NOT_FOUND if built without kernels
  bool all_have_kernels_ = false;
  bool all_have_parts_ = false;
  bool is_named_ = false;                   // true if the user named the path
  std::shared_ptr<const Kernels> kernels_;  // shared by all teams on this GPU
  std::shared_ptr<const NcclApi> nccl_;
  bool is_quiet_ = true;  // false if the device was still busy after a failure
  Stream stream_;
  Event done_;
  DeviceMemory trial_;               // used by try_ipc(), kept until the end
  std::unique_ptr<Route> route_;     // uses all above, so it must end first
  NcclRoute* nccl_route_ = nullptr;  // route_ if it is an NcclRoute, else null
};

}  // namespace muster::collectives::device
