#include "launcherd/trace/otlp_message.h"

#include <gtest/gtest.h>

#include "proto/wire/otlp.pb.h"

namespace muster::launcherd::otlp_message_test {
namespace {

TraceSpan a_span() {
  TraceSpan span;
  span.context.trace_id.fill(1);
  span.context.span_id.fill(2);
  span.context.state = "a=b";
  span.name = "rank 1";
  span.begin = 1'000;
  span.end = 3'000;
  return span;
}

otlp::ExportTraceServiceRequest request_of(const TraceSpan& span, const OtlpOptions& options = {}) {
  otlp::ExportTraceServiceRequest request;
  EXPECT_TRUE(request.ParseFromString(otlp_request({&span, 1}, options, {.host = "n0", .version = "1.2"})));
  return request;
}

otlp::Span span_of(const TraceSpan& span) {
  return request_of(span).resource_spans(0).scope_spans(0).spans(0);
}

TEST(OtlpMessage, IdsTimesAndParentAreAsTheProtocolWants) {
  TraceSpan span = a_span();
  EXPECT_EQ(span_of(span).trace_id(), std::string(16, '\1'));
  EXPECT_EQ(span_of(span).span_id(), std::string(8, '\2'));
  EXPECT_TRUE(span_of(span).parent_span_id().empty());
  EXPECT_EQ(span_of(span).start_time_unix_nano(), 1'000'000U);
  EXPECT_EQ(span_of(span).end_time_unix_nano(), 3'000'000U);
  EXPECT_EQ(span_of(span).trace_state(), "a=b");
  EXPECT_EQ(span_of(span).flags(), 1U);
  EXPECT_EQ(span_of(span).kind(), otlp::Span::SPAN_KIND_INTERNAL);
  EXPECT_FALSE(span_of(span).has_status());
  span.parent.emplace().fill(3);
  EXPECT_EQ(span_of(span).parent_span_id(), std::string(8, '\3'));
  span.end = 0;
  EXPECT_EQ(span_of(span).end_time_unix_nano(), 1'000'000U);
}

TEST(OtlpMessage, AFailureIsAStatus) {
  TraceSpan span = a_span();
  span.error = "exit code 7";
  EXPECT_EQ(span_of(span).status().code(), otlp::Status::STATUS_CODE_ERROR);
  EXPECT_EQ(span_of(span).status().message(), "exit code 7");
}

TEST(OtlpMessage, TextIsBoundedAndValid) {
  TraceSpan span = a_span();
  span.attributes = {
      {"long", std::string(100'000, 'x')}, {"bytes", std::string("\xff")}, {"n", std::int64_t{-3}}, {"b", true}};
  span.events.push_back({.name = "end", .time = 5, .attributes = {{"exit_code", std::int64_t{7}}}});
  const otlp::Span sent = span_of(span);
  ASSERT_EQ(sent.attributes_size(), 4);
  EXPECT_LE(sent.attributes(0).value().string_value().size(), kLongestAttribute);
  EXPECT_EQ(sent.attributes(1).value().string_value(), "\xef\xbf\xbd");
  EXPECT_EQ(sent.attributes(2).value().int_value(), -3);
  EXPECT_TRUE(sent.attributes(3).value().bool_value());
  EXPECT_EQ(sent.events(0).time_unix_nano(), 5'000U);
}

TEST(OtlpMessage, TheResourceNamesServiceAndHost) {
  OtlpOptions options;
  options.service_name = "train";
  options.resource = {{"host.name", "mine"}};
  std::vector<std::string> shown;
  const otlp::ExportTraceServiceRequest request = request_of(a_span(), options);
  for (const otlp::KeyValue& each : request.resource_spans(0).resource().attributes()) {
    shown.push_back(each.key() + "=" + each.value().string_value());
  }
  EXPECT_EQ(shown, (std::vector<std::string>{"service.name=train", "service.version=1.2", "host.name=mine"}));
}

TEST(OtlpMessage, AnswersMayRefuseSpans) {
  otlp::ExportTraceServiceResponse response;
  EXPECT_EQ(parse_otlp_answer("")->rejected, 0);
  response.mutable_partial_success()->set_rejected_spans(3);
  response.mutable_partial_success()->set_error_message("too\nlong");
  const auto answer = parse_otlp_answer(response.SerializeAsString());
  EXPECT_EQ(answer->rejected, 3);
  EXPECT_EQ(answer->message.find('\n'), std::string::npos);
  EXPECT_EQ(parse_otlp_answer("<html>").status().code(), base::Code::kDataLoss);
}

}  // namespace
}  // namespace muster::launcherd::otlp_message_test
