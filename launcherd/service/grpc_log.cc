#include "launcherd/service/grpc_log.h"

#include <grpc/support/log.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/env.h"
#include "base/shortened.h"
#include "base/strings.h"

namespace muster::launcherd {
namespace {

constexpr std::chrono::minutes kErrorPause{1};
constexpr std::size_t kLongestLine = 300;

struct ErrorLog {
  std::mutex mutex;  // guards all; held while a line is passed on, so that nobody is called after its end
  std::vector<const GrpcErrors::OnError*> readers;
  std::optional<base::MonotonicTime> last;
  std::uint64_t left_out = 0;
};

// Never destroyed: threads of gRPC may log while the process ends.
ErrorLog& error_log() {
  static ErrorLog* const kLog = new ErrorLog();
  return *kLog;
}

void pass_on(gpr_log_func_args* args) {
  if (args->severity != GPR_LOG_SEVERITY_ERROR) return;
  ErrorLog& log = error_log();
  const std::lock_guard lock(log.mutex);
  if (log.readers.empty()) return;
  const base::MonotonicTime now = base::monotonic_now();
  if (log.last && now - *log.last < kErrorPause) {
    ++log.left_out;
    return;
  }
  log.last = now;
  const std::string more = log.left_out == 0 ? "" : fmt::format(" ({} more since the last line)", log.left_out);
  log.left_out = 0;
  (*log.readers.back())(fmt::format("gRPC: {}{}", base::shortened(base::printable(args->message), kLongestLine), more));
}

}  // namespace

GrpcErrors::GrpcErrors(OnError on_error) : on_error_(std::move(on_error)) {
  if (base::env_var("GRPC_VERBOSITY")) return;
  gpr_set_log_function(pass_on);
  ErrorLog& log = error_log();
  const std::lock_guard lock(log.mutex);
  if (on_error_) log.readers.push_back(&on_error_);
}

GrpcErrors::~GrpcErrors() {
  ErrorLog& log = error_log();
  const std::lock_guard lock(log.mutex);
  std::erase(log.readers, &on_error_);
}

}  // namespace muster::launcherd
