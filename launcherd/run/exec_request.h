// Requests to run a command beside a rank (Exec of launcher.proto): their checks, and the caller's side of a command.
// The functions are pure.
#pragma once

#include "base/status.h"
#include "launcherd/service/api_handler.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline run {

using ExecCaller = Replies<v1::ExecEvent>;
// `next` gets requests that check_next_request() has accepted. Both functions may be called at any time. They have no
// effect once the command is over.
using ExecControls = Requests<v1::ExecRequest>;

// INVALID_ARGUMENT: a field of the first request is wrong, and the message names it.
base::Status check_first_request(const v1::ExecRequest& request);
// The same for a later request.
base::Status check_next_request(const v1::ExecRequest& request);

// Returns the rank that the request means, in a job with ranks 0 to `size` - 1.
base::Result<int> rank_of_request(const v1::ExecRequest& request, int size);

}  // namespace muster::launcherd::run
