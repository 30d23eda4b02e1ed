#include "launcherd/web/http_error.h"

#include <gtest/gtest.h>

namespace muster::launcherd::http_error_test {
namespace {

TEST(HttpError, HasTheStatusOfItsCode) {
  EXPECT_EQ(http_status(base::Code::kInvalidArgument), 400);
  EXPECT_EQ(http_status(base::Code::kUnauthenticated), 401);
  EXPECT_EQ(http_status(base::Code::kPermissionDenied), 403);
  EXPECT_EQ(http_status(base::Code::kNotFound), 404);
  EXPECT_EQ(http_status(base::Code::kFailedPrecondition), 409);
  EXPECT_EQ(http_status(base::Code::kAlreadyExists), 409);
  EXPECT_EQ(http_status(base::Code::kResourceExhausted), 429);
  EXPECT_EQ(http_status(base::Code::kInternal), 500);
  EXPECT_EQ(http_status(base::Code::kUnavailable), 503);
}

TEST(HttpError, NamesTheField) {
  EXPECT_EQ(error_json(base::invalid_argument("spec.size: 0 ranks")),
            R"({"code":"INVALID_ARGUMENT","message":"spec.size: 0 ranks","field":"spec.size"})");
  EXPECT_EQ(error_json(base::not_found("no \"x\"")), R"({"code":"NOT_FOUND","message":"no \"x\""})");
}

}  // namespace
}  // namespace muster::launcherd::http_error_test
