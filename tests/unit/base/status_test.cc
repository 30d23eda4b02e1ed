#include "base/status.h"

#include <cerrno>
#include <memory>
#include <sstream>

#include <gtest/gtest.h>

namespace muster::base::status_test {
namespace {

std::string show(const Status& status) {
  std::ostringstream out;
  out << status;
  return out.str();
}

TEST(Status, EachCodeHasAFunctionOfItsName) {
  const std::pair<Status, Code> cases[] = {{invalid_argument("{}", 1), Code::kInvalidArgument},
                                           {unavailable("{}", 1), Code::kUnavailable},
                                           {failed_precondition("{}", 1), Code::kFailedPrecondition},
                                           {resource_exhausted("{}", 1), Code::kResourceExhausted},
                                           {internal_error("{}", 1), Code::kInternal},
                                           {not_found("{}", 1), Code::kNotFound},
                                           {permission_denied("{}", 1), Code::kPermissionDenied},
                                           {deadline_exceeded("{}", 1), Code::kDeadlineExceeded},
                                           {data_loss("{}", 1), Code::kDataLoss},
                                           {unimplemented("{}", 1), Code::kUnimplemented},
                                           {cancelled("{}", 1), Code::kCancelled},
                                           {already_exists("{}", 1), Code::kAlreadyExists},
                                           {unauthenticated("{}", 1), Code::kUnauthenticated}};
  for (const auto& [status, code] : cases) {
    EXPECT_EQ(status.code(), code);
    EXPECT_EQ(status.message(), "1");
  }
}

TEST(Status, DefaultIsOk) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(show(ok_status()), "OK");
}

TEST(Status, CarriesCodeAndSentence) {
  const Status status = error(Code::kNotFound, "host {} is not listed", "n7");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(show(status), "NOT_FOUND: host n7 is not listed");
}

TEST(Status, ContextGoesBeforeTheMessageAndKeepsTheCode) {
  const Status status = error(Code::kUnavailable, "refused").with_context("connect n1");
  EXPECT_EQ(show(status), "UNAVAILABLE: connect n1: refused");
  EXPECT_TRUE(ok_status().with_context("connect n1").ok());
}

TEST(Status, ErrnoMapsToCodes) {
  const std::pair<int, Code> table[] = {{ENOENT, Code::kNotFound},
                                        {ESRCH, Code::kNotFound},
                                        {EACCES, Code::kPermissionDenied},
                                        {EPERM, Code::kPermissionDenied},
                                        {EEXIST, Code::kAlreadyExists},
                                        {ENOSPC, Code::kResourceExhausted},
                                        {EMFILE, Code::kResourceExhausted},
                                        {EAGAIN, Code::kResourceExhausted},
                                        {ETIMEDOUT, Code::kDeadlineExceeded},
                                        {EINVAL, Code::kInvalidArgument},
                                        {EPIPE, Code::kUnavailable},
                                        {ECONNREFUSED, Code::kUnavailable},
                                        {EXDEV, Code::kUnknown}};
  for (const auto& [number, code] : table) EXPECT_EQ(errno_error(number, "x").code(), code) << number;
  EXPECT_EQ(errno_error(ENOENT, "open f").message(), "open f: No such file or directory");
}

TEST(Status, EveryCodeHasAName) {
  for (int code = 0; code <= 16; ++code) {
    EXPECT_EQ(code_name(static_cast<Code>(code)) == "UNKNOWN", code == 2) << code;
  }
}

Result<int> half(int value) {
  if (value % 2 != 0) return error(Code::kInvalidArgument, "{} is odd", value);
  return value / 2;
}

Result<int> quarter(int value) {
  MUSTER_ASSIGN_OR_RETURN(const int once, half(value));
  MUSTER_ASSIGN_OR_RETURN(const int twice, half(once));
  return twice;
}

Status check_even(int value) {
  MUSTER_RETURN_IF_ERROR(half(value).status());
  return ok_status();
}

TEST(Result, MacrosPassErrorsUp) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).status().message(), "3 is odd");
  EXPECT_EQ(quarter(5).status().message(), "5 is odd");
  EXPECT_TRUE(check_even(2).ok());
  EXPECT_EQ(check_even(1).code(), Code::kInvalidArgument);
}

TEST(Result, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(**result, 7);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 7);
}

TEST(ResultDeathTest, MisuseAborts) {
  const Result<int> failed(error(Code::kInternal, "x"));
  EXPECT_DEATH((void)failed.value(), "");
  EXPECT_DEATH((void)Result<int>(ok_status()), "");
}

TEST(CheckDeathTest, NamesTheCondition) {
  EXPECT_DEATH(MUSTER_CHECK(1 + 1 == 3), "status_test.cc:[0-9]+: check failed: 1 \\+ 1 == 3");
}

}  // namespace
}  // namespace muster::base::status_test
