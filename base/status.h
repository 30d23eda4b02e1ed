// Errors as values: Status (a code and one sentence) and Result<T> (a value or a Status).
//
// Codes are the canonical RPC codes, so that a Status maps to grpc::Status and back without a table. The message says
// what failed, where (host, file:line, flag) and what to do next. Outer layers add context once on the way up.
// Both types are plain values: copy, move, and use from any thread like an int.
//
//   Result<Config> load(const std::string& path);
//   MUSTER_ASSIGN_OR_RETURN(const Config config, load(path));
#pragma once

#include <cstdlib>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace muster::base {

// Numbered as in gRPC (google.rpc.Code).
enum class Code : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

std::string_view code_name(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // the status is ok
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // Returns the same code with "context: " before the message.
  Status with_context(std::string_view context) const;

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

std::ostream& operator<<(std::ostream& out, const Status& status);

inline Status ok_status() {
  return {};
}

template <typename... Args>
Status error(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return {code, fmt::format(format, std::forward<Args>(args)...)};
}

// Each function returns error() with the code of its name: invalid_argument("no rank {}", rank).
template <typename... Args>
Status invalid_argument(fmt::format_string<Args...> format, Args&&... args) {
  return error(Code::kInvalidArgument, format, std::forward<Args>(args)...);
}
template <typename... Args>
Status unavailable(fmt::format_string<Args...> format, Args&&... args) {
  return error(Code::kUnavailable, format, std::forward<Args>(args)...);
}
template <typename... Args>
Status failed_precondition(fmt::format_string<Args...> format, Args&&... args) {
  return error(Code::kFailedPrecondition, format, std::forward<Args>(args)...);
}
template <typename... Args>
Status resource_exhausted(fmt::format_string<Args...> format, Args&&... args) {
  return error(Code::kResourceExhausted, format, std::forward<Args>(args)...);
}
template <typename... Args>
Status internal_error(fmt::format_string<Args...> format, Args&&... args) {
  return error(Code::kInternal, format, std::forward<Args>(args)...);
}
template <typename... Args>
Status not_found(fmt::format_string<Args...> format, Args&&... args) {
  return error(Code::kNotFound, format, std::forward<Args>(args)...);
}
template <typename... Args>
Status permission_denied(fmt::format_string<Args...> format, Args&&... args) {
  return error(Code::kPermissionDenied, format, std::forward<Args>(args)...);
}
template <typename... Args>
Status deadline_exceeded(fmt::format_string<Args...> format, Args&&... args) {
  return error(Code::kDeadlineExceeded, format, std::forward<Args>(args)...);
}
template <typename... Args>
Status data_loss(fmt::format_string<Args...> format, Args&&... args) {
  return error(Code::kDataLoss, format, std::forward<Args>(args)...);
}
template <typename... Args>
Status unimplemented(fmt::format_string<Args...> format, Args&&... args) {
  return error(Code::kUnimplemented, format, std::forward<Args>(args)...);
}
template <typename... Args>
Status cancelled(fmt::format_string<Args...> format, Args&&... args) {
  return error(Code::kCancelled, format, std::forward<Args>(args)...);
}
template <typename... Args>
Status already_exists(fmt::format_string<Args...> format, Args&&... args) {
  return error(Code::kAlreadyExists, format, std::forward<Args>(args)...);
}
template <typename... Args>
Status unauthenticated(fmt::format_string<Args...> format, Args&&... args) {
  return error(Code::kUnauthenticated, format, std::forward<Args>(args)...);
}

// Returns an error with the text `what: strerror(errno_value)`. Its code fits errno: ENOENT gives NOT_FOUND, EACCES
// gives PERMISSION_DENIED, ….
Status errno_error(int errno_value, std::string_view what);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor): a value is a result
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor): so is an error
    if (status_.ok()) std::abort();                     // an ok status without a value is a bug of the caller
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return checked(); }
  const T& value() const& { return const_cast<Result*>(this)->checked(); }
  T&& value() && { return std::move(checked()); }
  T& operator*() & { return checked(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(checked()); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &value(); }

 private:
  T& checked() {
    if (!value_) std::abort();  // reading the value of an error is a bug of the caller
    return *value_;
  }

  Status status_;
  std::optional<T> value_;
};

}  // namespace muster::base

#define MUSTER_RETURN_IF_ERROR(expression)                                            \
  do {                                                                                \
    if (auto muster_status = (expression); !muster_status.ok()) return muster_status; \
  } while (false)

#define MUSTER_CONCAT_INNER(a, b) a##b
#define MUSTER_CONCAT(a, b) MUSTER_CONCAT_INNER(a, b)
#define MUSTER_ASSIGN_OR_RETURN(declaration, expression) \
  MUSTER_ASSIGN_OR_RETURN_INNER(MUSTER_CONCAT(muster_result_, __LINE__), declaration, expression)
#define MUSTER_ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                          \
  if (!result.ok()) return result.status();                            \
  declaration = std::move(result).value()

// Checks one of our own invariants: if the condition is false, reports the place and aborts. If the outside world
// misbehaves, return a Status instead.
#define MUSTER_CHECK(condition)                                                                \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      fmt::print(stderr, "muster: {}:{}: check failed: {}\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                            \
    }                                                                                          \
  } while (false)
