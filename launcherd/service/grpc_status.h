// Our errors as gRPC's. Private to this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include "base/status.h"

namespace muster::launcherd::inline service {

// Code and sentence, and both once more in `grpc-status-details-bin`, as google.rpc.Status with an ErrorInfo.
grpc::Status to_grpc(const base::Status& status);

}  // namespace muster::launcherd::service
