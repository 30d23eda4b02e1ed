// Redirects gRPC's own log. gRPC has one log function per process, so the change affects the whole process. Thread:
// any.
//
// gRPC's errors go to the launcher's log, at most one line a minute, with the number of errors that were left out. All
// other levels are dropped, because gRPC logs a line about each unauthenticated peer. If GRPC_VERBOSITY is set, gRPC
// writes to stderr as usual.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"

namespace muster::launcherd::inline service {

// While the object lives, `on_error` gets the errors, on gRPC's threads. It gets none after the destruction. If several
// objects live, the newest one gets the errors. Without an object gRPC's log is dropped.
class GrpcErrors {
 public:
  using OnError = std::function<void(const std::string& line)>;
  using Now = base::MonotonicTime (*)();

  // `now` is called on gRPC's threads.
  explicit GrpcErrors(OnError on_error, Now now = base::monotonic_now);
  ~GrpcErrors();
  GrpcErrors(const GrpcErrors&) = delete;
  GrpcErrors& operator=(const GrpcErrors&) = delete;

 private:
  friend struct GrpcErrorLog;

  void logged(const char* message);

  const OnError on_error_;
  const Now now_;
  // The log's mutex guards the members below.
  std::optional<base::MonotonicTime> last_;
  std::uint64_t left_out_ = 0;
};

}  // namespace muster::launcherd::service
