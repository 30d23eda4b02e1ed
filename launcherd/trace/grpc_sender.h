// Sends spans by OTLP over gRPC.
#pragma once

#include <memory>

#include "base/status.h"
#include "launcherd/trace/otlp_options.h"
#include "launcherd/trace/span_sender.h"

namespace muster::launcherd::inline trace {

// The connection is made by the first request, and kept. INVALID_ARGUMENT: certificates or headers cannot be used; the
// message names the variable.
base::Result<std::unique_ptr<SpanSender>> make_grpc_sender(const OtlpOptions& options);

}  // namespace muster::launcherd::trace
