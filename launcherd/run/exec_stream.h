// One call of Exec, from its first request to its end: checks each request, and keeps requests until the job is found.
//
// Owner: shared by the functions of the call.
// Thread: loop thread only.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "launcherd/run/exec_request.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline run {

class ExecStream : public std::enable_shared_from_this<ExecStream> {
 public:
  static constexpr std::size_t kMostWaiting = 256;  // requests that come before the job is found

  using Start = std::function<base::Result<ExecControls>(const v1::ExecRequest& first, ExecCaller caller)>;

  // The message of an error names the field that is wrong.
  static base::Result<std::shared_ptr<ExecStream>> create(const v1::ExecRequest& first, ExecCaller caller);

  // Returns next() and leave() for the service. They keep this object.
  ExecControls controls();
  // Starts the command, once the job is found. An error of `start` is returned; then call fail(). Does nothing if the
  // call has ended in the meantime.
  base::Status begin(const Start& start);
  // Handles a further request.
  void next(const v1::ExecRequest& request);
  // The caller has left.
  void leave();
  // Ends the call with this error.
  void fail(const base::Status& status);

 private:
  enum class Phase { kWaiting, kRunning, kOver };

  ExecStream(const v1::ExecRequest& first, ExecCaller caller) : first_(first), caller_(std::move(caller)) {}

  const v1::ExecRequest first_;
  const ExecCaller caller_;
  Phase phase_ = Phase::kWaiting;
  std::vector<v1::ExecRequest> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::optional<ExecControls> controls_;  // in kRunning
};

}  // namespace muster::launcherd::run
