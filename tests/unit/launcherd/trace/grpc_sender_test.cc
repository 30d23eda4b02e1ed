// Tests sending by gRPC without a server. tests/daemon/test_traces.py has one.
#include "launcherd/trace/grpc_sender.h"

#include <gtest/gtest.h>

namespace muster::launcherd::grpc_sender_test {
namespace {

OtlpOptions options() {
  OtlpOptions options;
  options.url = {.host = "127.0.0.1", .port = 1, .path = ""};
  options.is_grpc = true;
  return options;
}

Waiter within(std::chrono::milliseconds time) {
  return {.deadline = std::chrono::steady_clock::now() + time};
}

TEST(GrpcSender, NoServerIsAnError) {
  const auto sender = make_grpc_sender(options());
  ASSERT_TRUE(sender.ok()) << sender.status();
  const auto reply = (*sender)->send("x", within(std::chrono::seconds(30)));
  EXPECT_EQ(reply.status().code(), base::Code::kUnavailable) << reply.status();
}

TEST(GrpcSender, ACancelledWaitEnds) {
  const auto sender = make_grpc_sender(options());
  ASSERT_TRUE(sender.ok()) << sender.status();
  CancelSource cancel;
  cancel.cancel();
  Waiter waiter = within(std::chrono::seconds(30));
  waiter.cancel_fd = cancel.fd();
  EXPECT_EQ((*sender)->send("x", waiter).status().code(), base::Code::kCancelled);
}

TEST(GrpcSender, WrongHeadersAndFilesNameTheirVariable) {
  OtlpOptions wrong = options();
  wrong.headers = {{"a b", "c"}};
  EXPECT_TRUE(make_grpc_sender(wrong).status().message().starts_with("OTEL_EXPORTER_OTLP_HEADERS: "));
  wrong.headers = {{"a", "\xc3\xa4"}};
  EXPECT_TRUE(make_grpc_sender(wrong).status().message().starts_with("OTEL_EXPORTER_OTLP_HEADERS: "));
  wrong = options();
  wrong.url.is_tls = true;
  wrong.certificate = "/missing";
  EXPECT_TRUE(make_grpc_sender(wrong).status().message().starts_with("OTEL_EXPORTER_OTLP_CERTIFICATE=/missing: "));
}

}  // namespace
}  // namespace muster::launcherd::grpc_sender_test
