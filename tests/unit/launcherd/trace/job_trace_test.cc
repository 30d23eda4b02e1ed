// Tests JobTrace and JobTraces with a collector on a real socket.
#include "launcherd/trace/job_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "proto/wire/otlp.pb.h"
#include "tests/unit/launcherd/trace/fake_collector.h"
#include "tests/unit/launcherd/trace/job_events.h"

namespace muster::launcherd::job_trace_test {
namespace {

using namespace testing_support;

constexpr std::string_view kParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const base::WallTime kSubmitted{std::chrono::microseconds(kEpoch)};

class JobTraceTest : public ::testing::Test {
 protected:
  JobTraceTest() {
    auto exporter = TraceExporter::start(collector_.options(), {}, [](const std::string& line) { FAIL() << line; });
    EXPECT_TRUE(exporter.ok()) << exporter.status();
    exporter_ = *std::move(exporter);
  }

  static TracedJob job() { return {.id = "k7abcdef", .name = "night", .submitted = kSubmitted}; }
  // Returns all that was sent.
  std::vector<otlp::Span> sent() {
    exporter_->stop(std::chrono::seconds(30));
    return collector_.spans();
  }
  static std::vector<std::string> names(const std::vector<otlp::Span>& spans) {
    std::vector<std::string> all;
    for (const otlp::Span& span : spans) all.push_back(span.name());
    return all;
  }

  FakeCollector collector_;
  std::unique_ptr<TraceExporter> exporter_;
};

TEST_F(JobTraceTest, AllSpansAreWithinThatOfTheJob) {
  JobTrace trace(job(), exporter_.get());
  for (const v1::Event& event : failed_job()) trace.add(event);
  EXPECT_TRUE(trace.is_over());
  const auto spans = sent();
  EXPECT_EQ(names(spans),
            (std::vector<std::string>{"job queued", "host log-in", "host log-in", "job starting", "rank 1",
                                      "job running", "rank 0", "job stopping", "host up", "host up", "job"}));
  const otlp::Span& root = spans.back();
  EXPECT_TRUE(root.parent_span_id().empty());
  std::set<std::string> ids;
  for (const otlp::Span& span : spans) {
    ids.insert(span.span_id());
    EXPECT_EQ(span.trace_id(), root.trace_id());
    if (&span == &root) continue;
    EXPECT_EQ(span.parent_span_id(), root.span_id());
    EXPECT_LE(root.start_time_unix_nano(), span.start_time_unix_nano());
    EXPECT_GE(root.end_time_unix_nano(), span.end_time_unix_nano());
  }
  EXPECT_EQ(ids.size(), spans.size());
  EXPECT_EQ(root.status().message(), "rank 1 on n2: exit code 7");
  EXPECT_EQ(root.events_size(), 2);
  EXPECT_EQ(spans[4].status().message(), "exit code 7");
  EXPECT_FALSE(spans[6].has_status());
}

TEST_F(JobTraceTest, ARankGetsTheContextOfItsSpan) {
  JobTrace trace(job(), exporter_.get());
  for (const v1::Event& event : failed_job()) trace.add(event);
  const auto variables = model::trace_variables(trace.context(), 0, 1, {});
  const auto context = model::parse_trace_context(variables[0].second, "");
  const auto spans = sent();
  EXPECT_EQ(spans[4].span_id(), std::string(reinterpret_cast<const char*>(context->span_id.data()), 8));
}

TEST_F(JobTraceTest, AParentHasTheJobAsItsChild) {
  TracedJob child = job();
  child.parent = *model::parse_trace_context(kParent, "a=b");
  JobTrace trace(child, exporter_.get());
  trace.add(starting_at(0, 1));
  trace.add(job_ended_at(10, 0));
  const auto spans = sent();
  EXPECT_EQ(spans.back().trace_state(), "a=b");
  EXPECT_EQ(spans.back().parent_span_id(), std::string("\x00\xf0\x67\xaa\x0b\xa9\x02\xb7", 8));
  EXPECT_EQ(trace.context().trace_id, child.parent->trace_id);
}

TEST_F(JobTraceTest, AnUnsampledParentSendsNothing) {
  TracedJob child = job();
  child.parent = *model::parse_trace_context("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", "");
  JobTrace trace(child, exporter_.get());
  for (const v1::Event& event : failed_job()) trace.add(event);
  EXPECT_FALSE(trace.context().is_sampled);
  EXPECT_TRUE(sent().empty());
}

TEST_F(JobTraceTest, ALaterLauncherdGoesOnInTheSameTrace) {
  const auto events = failed_job();
  JobTraces first(exporter_.get());
  first.begin(job());
  for (std::size_t i = 0; i < 7; ++i) first.add("k7abcdef", events[i]);
  const auto context = first.context_of("k7abcdef");
  JobTraces second(exporter_.get());
  second.begin(job());
  for (std::size_t i = 0; i < 7; ++i) second.replay("k7abcdef", events[i]);
  EXPECT_EQ(second.context_of("k7abcdef"), context);
  for (std::size_t i = 7; i < events.size(); ++i) second.add("k7abcdef", events[i]);
  EXPECT_EQ(second.context_of("k7abcdef"), std::nullopt);  // it has ended
  const auto spans = sent();
  EXPECT_EQ(spans.size(), 11U);
  std::set<std::string> ids;
  for (const otlp::Span& span : spans) ids.insert(span.span_id());
  EXPECT_EQ(ids.size(), spans.size());
  const auto rank = std::ranges::find(spans, "rank 1", &otlp::Span::name);
  ASSERT_NE(rank, spans.end());
  EXPECT_EQ(rank->start_time_unix_nano(), static_cast<std::uint64_t>(kEpoch + 1'000'000) * 1000);
}

TEST_F(JobTraceTest, EventsOfTheJobAreBounded) {
  JobTrace trace(job(), exporter_.get());
  trace.add(starting_at(0, 1));
  for (int i = 0; i < 1'000; ++i) {
    trace.add(event_at(i, [](v1::Event& event) { event.mutable_hang_reported()->set_cause("x"); }));
  }
  trace.add(job_ended_at(1'000, 0));
  const auto spans = sent();
  EXPECT_EQ(spans.back().events_size(), static_cast<int>(JobTrace::kMostEvents));
  EXPECT_EQ(spans.back().dropped_events_count(), 1'001 - JobTrace::kMostEvents);
}

TEST_F(JobTraceTest, UnknownJobsAreIgnored) {
  JobTraces traces(exporter_.get());
  traces.add("zzzzzzzz", starting_at(0, 1));
  EXPECT_EQ(traces.context_of("zzzzzzzz"), std::nullopt);
  EXPECT_EQ(traces.parent_of("zzzzzzzz"), std::nullopt);
  EXPECT_TRUE(sent().empty());
}

}  // namespace
}  // namespace muster::launcherd::job_trace_test
