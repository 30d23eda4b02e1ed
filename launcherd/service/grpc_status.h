// Converts our errors to gRPC's. Private to this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include "base/status.h"

namespace muster::launcherd::inline service {

// Sets code and message. `grpc-status-details-bin` repeats both as google.rpc.Status with an ErrorInfo.
grpc::Status to_grpc(const base::Status& status);

}  // namespace muster::launcherd::service
