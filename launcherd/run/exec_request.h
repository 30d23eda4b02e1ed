// Requests to run a command beside a rank (Exec of launcher.proto): their checks, and the caller's side of a command.
// The functions are pure.
#pragma once

#include <functional>

#include "base/loop.h"
#include "base/status.h"

namespace muster::v1 {
class ExecEvent;
class ExecRequest;
}  // namespace muster::v1

namespace muster::launcherd::inline run {

// Receives what happens to a command. `done` is called once, after it nothing is.
struct ExecCaller {
  std::function<void(v1::ExecEvent)> send;
  std::function<void(const base::Status&)> done;
  // Does the same as Replies::when_written in launcherd/service.
  std::function<void(base::Loop::Task)> when_written;
};

// Both functions may be called at any time. They have no effect once the command is over.
struct ExecControls {
  std::function<void(const v1::ExecRequest&)> more;  // a request that check_next_request() has accepted
  std::function<void()> leave;                       // the caller has left: the command ends
};

// INVALID_ARGUMENT: a field of the first request is wrong, and the message names it.
base::Status check_first_request(const v1::ExecRequest& request);
// The same for a later request.
base::Status check_next_request(const v1::ExecRequest& request);

// Returns the rank that the request means, in a job with ranks 0 to `size` - 1.
base::Result<int> rank_of_request(const v1::ExecRequest& request, int size);

}  // namespace muster::launcherd::run
