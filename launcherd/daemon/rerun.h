// Builds the request by which a stored job is submitted once more.
//
// Thread: read_rerun() runs on the store's reading thread; the other function is pure.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "launcherd/store/store_reader.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline daemon {

struct StoredRerun {
  v1::SubmitRequest request;               // without the values of variables
  std::optional<base::JobId> known;        // the job that this request_id has already made
  std::optional<std::string> environment;  // bytes of a StoredEnvironment; nullopt if the job has ended
};

// The request has the command, the options, the name, the priority, the labels and the retention of the job. It is not
// held and waits for no other job. NOT_FOUND: the job is unknown. ALREADY_EXISTS: the request_id was used for another
// request.
base::Result<StoredRerun> read_rerun(StoreReader& reader, const base::JobId& id, const std::string& request_id);

// Adds the values of variables. `environment` is nullptr if launcherd no longer has them.
// FAILED_PRECONDITION: they are needed and missing, or the job's deadline has passed at `now`.
base::Result<v1::SubmitRequest> complete_rerun(const base::JobId& id, v1::SubmitRequest request,
                                               const std::string* environment, base::WallTime now);

}  // namespace muster::launcherd::daemon
