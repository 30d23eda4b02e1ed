// gRPC's own log. gRPC has one log function in a process, so what is here is process-wide, and safe in any thread.
//
// What gRPC logs as an error goes to the launcher's log, at most one line a minute; a line says how many were left out.
// All else is dropped: gRPC logs a line about each stranger. With GRPC_VERBOSITY set gRPC writes to stderr as ever.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"

namespace muster::launcherd::inline service {

// While it lives, errors go to `on_error`, from threads of gRPC; not after its end. The newest one is asked. Without
// any, gRPC's log is dropped.
class GrpcErrors {
 public:
  using OnError = std::function<void(const std::string& line)>;
  using Now = base::MonotonicTime (*)();

  // `now` is called from threads of gRPC.
  explicit GrpcErrors(OnError on_error, Now now = base::monotonic_now);
  ~GrpcErrors();
  GrpcErrors(const GrpcErrors&) = delete;
  GrpcErrors& operator=(const GrpcErrors&) = delete;

 private:
  friend struct GrpcErrorLog;

  void logged(const char* message);

  const OnError on_error_;
  const Now now_;
  // The log's mutex guards the rest.
  std::optional<base::MonotonicTime> last_;
  std::uint64_t left_out_ = 0;
};

}  // namespace muster::launcherd::service
