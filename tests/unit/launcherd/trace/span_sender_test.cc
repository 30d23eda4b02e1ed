// Tests what becomes of a request by HTTP.
#include "launcherd/trace/span_sender.h"

#include <gtest/gtest.h>

#include "tests/unit/launcherd/trace/fake_collector.h"

namespace muster::launcherd::span_sender_test {
namespace {

using testing_support::FakeCollector;

TEST(SpanSender, StatusesSayWhetherAnotherTryHelps) {
  FakeCollector collector;
  const auto sender = make_span_sender(collector.options());
  ASSERT_TRUE(sender.ok()) << sender.status();
  const std::vector<std::pair<int, SendReply::Kind>> kinds = {
      {200, SendReply::Kind::kAccepted}, {202, SendReply::Kind::kAccepted}, {301, SendReply::Kind::kRefused},
      {400, SendReply::Kind::kRefused},  {401, SendReply::Kind::kRefused},  {429, SendReply::Kind::kBusy},
      {500, SendReply::Kind::kRefused},  {502, SendReply::Kind::kBusy},     {503, SendReply::Kind::kBusy},
      {504, SendReply::Kind::kBusy}};
  for (const auto& [status, kind] : kinds) {
    collector.answer_next(FakeCollector::reply(status, "Retry-After: 3\r\n"));
    const auto reply = (*sender)->send("x", {.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30)});
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->kind, kind) << status;
    EXPECT_EQ(reply->why.empty(), kind == SendReply::Kind::kAccepted) << status;
    if (kind != SendReply::Kind::kBusy) continue;
    EXPECT_EQ(reply->retry_after, std::chrono::seconds(3));
  }
}

TEST(SpanSender, TheProtocolIsThatOfTheOptions) {
  OtlpOptions options;
  options.url = {.host = "127.0.0.1", .port = 1, .path = ""};
  options.is_grpc = true;
  options.headers = {{"not for gRPC", "x"}};
  EXPECT_EQ(make_span_sender(options).status().code(), base::Code::kInvalidArgument);
  options.is_grpc = false;
  EXPECT_TRUE(make_span_sender(options).ok());
}

}  // namespace
}  // namespace muster::launcherd::span_sender_test
