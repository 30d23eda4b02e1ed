// PyTorch's flight recorder: the collective operations of a rank, in the order in which they were recorded. Torch 2.6
// and later serve it in JSON at the control plane of a worker, which is HTTP over a Unix socket. The environment
// variable TORCH_WORKER_SERVER_SOCKET names the socket, if the program uses torch.distributed.elastic.control_plane.
//
// Thread: any. parse_flight_recorder() is pure. ask_flight_recorder() blocks until the deadline at most.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/hang_report.h"

namespace muster::agent::inline evidence {

inline constexpr std::chrono::milliseconds kFlightRecorderLimit{1'000};

// Returns the first operation that has not completed and that no later one of its group has overtaken. Without one, it
// is the last operation. Operations between two ranks do not count, because their numbers differ from rank to rank.
// nullopt if there is no operation. INVALID_ARGUMENT: it is no dump of the flight recorder.
base::Result<std::optional<model::TorchCollective>> parse_flight_recorder(std::string_view json);

// Asks at this socket, at which the process `pid` of this user must listen: ranks may have the same path in their
// environments. NOT_FOUND: the torch there has no flight recorder in JSON. Other
// errors: the answer is missing, is too long, or cannot be parsed.
base::Result<std::optional<model::TorchCollective>> ask_flight_recorder(
    const std::string& socket, pid_t pid,
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::now() + kFlightRecorderLimit);

}  // namespace muster::agent::evidence
