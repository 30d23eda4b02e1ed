// gRPC's own log. gRPC has one log function in a process, so what is here is process-wide, and safe in any thread.
//
// What gRPC logs as an error goes to the launcher's log, at most one line a minute; a line says how many were left out.
// All else is dropped: gRPC logs a line about each stranger. With GRPC_VERBOSITY set gRPC writes to stderr as ever.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace muster::launcherd {

// While it lives, errors go to `on_error`, from threads of gRPC; not after its end. The newest one is asked. Without
// any, gRPC's log is dropped.
class GrpcErrors {
 public:
  using OnError = std::function<void(const std::string& line)>;

  explicit GrpcErrors(OnError on_error);
  ~GrpcErrors();
  GrpcErrors(const GrpcErrors&) = delete;
  GrpcErrors& operator=(const GrpcErrors&) = delete;

 private:
  const OnError on_error_;
};

}  // namespace muster::launcherd
