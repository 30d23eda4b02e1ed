#include "launcherd/service/grpc_log.h"

#include <grpc/support/log.h>

#include <chrono>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/env.h"
#include "base/shortened.h"
#include "base/strings.h"

namespace muster::launcherd::inline service {
namespace {

constexpr std::chrono::minutes kErrorPause{1};
constexpr std::size_t kLongestLine = 300;

}  // namespace

struct GrpcErrorLog {
  // Guards all members. Hold the mutex while a reader gets a line, so that no reader is called after its destruction.
  std::mutex mutex;
  std::vector<GrpcErrors*> readers;

  // Never destroyed, because gRPC's threads may log while the process ends.
  static GrpcErrorLog& get() {
    static GrpcErrorLog* const kLog = new GrpcErrorLog();
    return *kLog;
  }

  static void pass_on(gpr_log_func_args* args) {
    if (args->severity != GPR_LOG_SEVERITY_ERROR) return;
    GrpcErrorLog& log = get();
    const std::lock_guard lock(log.mutex);
    if (!log.readers.empty()) log.readers.back()->logged(args->message);
  }
};

GrpcErrors::GrpcErrors(OnError on_error, Now now) : on_error_(std::move(on_error)), now_(now) {
  if (base::env_var("GRPC_VERBOSITY")) return;
  gpr_set_log_function(GrpcErrorLog::pass_on);
  GrpcErrorLog& log = GrpcErrorLog::get();
  const std::lock_guard lock(log.mutex);
  if (on_error_) log.readers.push_back(this);
}

GrpcErrors::~GrpcErrors() {
  GrpcErrorLog& log = GrpcErrorLog::get();
  const std::lock_guard lock(log.mutex);
  std::erase(log.readers, this);
}

void GrpcErrors::logged(const char* message) {
  const base::MonotonicTime now = now_();
  if (last_ && now - *last_ < kErrorPause) {
    ++left_out_;
    return;
  }
  last_ = now;
  const std::string more = left_out_ == 0 ? "" : fmt::format(" ({} more since the last line)", left_out_);
  left_out_ = 0;
  on_error_(fmt::format("gRPC: {}{}", base::shortened(base::printable(message), kLongestLine), more));
}

}  // namespace muster::launcherd::service
