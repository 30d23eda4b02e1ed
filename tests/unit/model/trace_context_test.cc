#include "model/trace_context.h"

#include <gtest/gtest.h>

#include <set>

namespace muster::model::trace_context_test {
namespace {

constexpr std::string_view kParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const base::WallTime kSubmitted{std::chrono::seconds(1'782'000'000)};

std::string message_of(std::string_view parent) {
  const auto parsed = parse_trace_context(parent, "");
  return parsed.ok() ? "" : parsed.status().message();
}

TEST(TraceContext, ReadsWhatItWrites) {
  const auto context = parse_trace_context(kParent, "vendor=1");
  ASSERT_TRUE(context.ok()) << context.status();
  EXPECT_EQ(context->trace_id[0], 0x4b);
  EXPECT_EQ(context->span_id[7], 0xb7);
  EXPECT_TRUE(context->is_sampled);
  EXPECT_EQ(context->state, "vendor=1");
  EXPECT_EQ(traceparent(*context), kParent);
}

TEST(TraceContext, KeepsTheSampledFlagAlone) {
  const auto context = parse_trace_context("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-fe", "");
  ASSERT_TRUE(context.ok()) << context.status();
  EXPECT_FALSE(context->is_sampled);
  EXPECT_TRUE(traceparent(*context).ends_with("-00"));
}

TEST(TraceContext, AcceptsLongerTextOfLaterVersionsOnly) {
  std::string later(kParent);
  later.replace(0, 2, "cc");
  EXPECT_EQ(message_of(later), "");
  EXPECT_EQ(message_of(later + "-more"), "");
  EXPECT_NE(message_of(later + "more"), "");
  later.replace(0, 2, "00");
  EXPECT_NE(message_of(later + "-more"), "");
}

TEST(TraceContext, RefusesWrongText) {
  for (const std::string_view wrong : {"", "00", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
                                       "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                       "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                                       "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                                       "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                                       "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                       "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
                                       "0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                       "00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01"}) {
    const std::string message = message_of(wrong);
    EXPECT_TRUE(message.starts_with("TRACEPARENT: ")) << wrong;
    EXPECT_TRUE(wrong.size() < 3 || message.find(wrong) == std::string::npos) << message;
  }
}

TEST(TraceContext, MessagesDoNotShowTheValue) {
  for (const std::string_view wrong : {"s3cret", "s3cret-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}) {
    const std::string message = message_of(wrong);
    EXPECT_EQ(message.find("s3cret"), std::string::npos) << message;
  }
}

TEST(TraceContext, DropsAWrongState) {
  EXPECT_EQ(parse_trace_context(kParent, "a=\n")->state, "");
  EXPECT_EQ(parse_trace_context(kParent, std::string(513, 'a'))->state, "");
}

TEST(TraceContext, EnvironmentMayNameNone) {
  base::Environment environment;
  EXPECT_EQ(*inherited_trace(environment), std::nullopt);
  environment.set("TRACEPARENT", "");
  EXPECT_EQ(*inherited_trace(environment), std::nullopt);
  environment.set("TRACEPARENT", kParent);
  environment.set("TRACESTATE", "a=b");
  EXPECT_EQ((*inherited_trace(environment))->state, "a=b");
  environment.set("TRACEPARENT", "wrong");
  EXPECT_EQ(inherited_trace(environment).status().code(), base::Code::kInvalidArgument);
}

TEST(TraceContext, IdsOfAJobAreStable) {
  const TraceContext job = trace_of_job({}, "k7abcdef", kSubmitted);
  EXPECT_EQ(job, trace_of_job({}, "k7abcdef", kSubmitted));
  EXPECT_NE(job.trace_id, trace_of_job({}, "k7abcdeg", kSubmitted).trace_id);
  EXPECT_NE(job.trace_id, trace_of_job({}, "k7abcdef", kSubmitted + std::chrono::microseconds(1)).trace_id);
  EXPECT_TRUE(parse_trace_context(traceparent(job), "").ok());
}

TEST(TraceContext, JobsOfOneParentShareItsTrace) {
  const std::optional parent = *parse_trace_context(kParent, "a=b");
  const TraceContext one = trace_of_job(parent, "k7abcdef", kSubmitted);
  const TraceContext other = trace_of_job(parent, "k7abcdeg", kSubmitted);
  EXPECT_EQ(one.trace_id, parent->trace_id);
  EXPECT_EQ(one.state, "a=b");
  EXPECT_EQ((std::set{one.span_id, other.span_id, parent->span_id}).size(), 3U);
}

TEST(TraceContext, SpansOfAJobDiffer) {
  const TraceContext job = trace_of_job({}, "k7abcdef", kSubmitted);
  std::set<std::array<std::uint8_t, 8>> ids = {job.span_id};
  for (int rank = 0; rank < 10'000; ++rank) {
    for (const int generation : {0, 1}) ids.insert(trace_within(job, rank_span_name(generation, rank)).span_id);
  }
  EXPECT_EQ(ids.size(), 20'001U);
}

TEST(TraceContext, RanksGetTheirOwnSpan) {
  TraceContext job = trace_of_job({}, "k7abcdef", kSubmitted);
  base::Environment user_set;
  auto variables = trace_variables(job, 1, 3, user_set);
  ASSERT_EQ(variables.size(), 1U);
  EXPECT_EQ(variables[0].first, "TRACEPARENT");
  EXPECT_EQ(parse_trace_context(variables[0].second, "")->span_id, trace_within(job, rank_span_name(1, 3)).span_id);
  user_set.set("TRACESTATE", "of=another");
  EXPECT_EQ(trace_variables(job, 1, 3, user_set).at(1).second, "");
  job.state = "a=b";
  EXPECT_EQ(trace_variables(job, 1, 3, user_set).at(1).second, "a=b");
}

}  // namespace
}  // namespace muster::model::trace_context_test
