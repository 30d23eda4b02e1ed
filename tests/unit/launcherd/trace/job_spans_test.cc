#include "launcherd/trace/job_spans.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/launcherd/trace/job_events.h"

namespace muster::launcherd::job_spans_test {
namespace {

using namespace testing_support;

std::string shown(const JobSpan& span) {
  return fmt::format("{}{}: {}..{}{}", span.host.empty() ? "" : span.host + " ", span.name,
                     (span.begin - kEpoch) / 1000, (span.end - kEpoch) / 1000, span.error.empty() ? "" : " failed");
}

std::vector<std::string> spans_of(const std::vector<v1::Event>& events) {
  JobSpans spans;
  for (const v1::Event& event : events) spans.add(event);
  spans.finish();
  std::vector<std::string> all;
  for (const JobSpan& span : spans.take_spans()) all.push_back(shown(span));
  return all;
}

const AttributeValue* attribute(const SpanAttributes& attributes, std::string_view name) {
  const auto found = std::ranges::find(attributes, name, [](const auto& each) { return each.first; });
  return found == attributes.end() ? nullptr : &found->second;
}

TEST(JobSpans, PhasesHostsAndRanksHaveSpans) {
  EXPECT_EQ(spans_of(failed_job()),
            (std::vector<std::string>{"queued: 0..500", "n1 starting: 500..700", "n2 starting: 500..800",
                                      "starting: 500..1000", "n2 rank 1: 1000..5000 failed", "running: 1000..5100",
                                      "n1 rank 0: 900..6000", "stopping: 5100..6500", "n1 up: 700..6500",
                                      "n2 up: 800..6500"}));
}

TEST(JobSpans, SpansCanBeTakenAsTheyEnd) {
  JobSpans spans;
  std::size_t count = 0;
  for (const v1::Event& event : failed_job()) {
    spans.add(event);
    const auto ended = spans.take_spans();
    count += ended.size();
    for (const JobSpan& span : ended) EXPECT_EQ(span.end, spans.last());
  }
  EXPECT_EQ(count, 10U);
  EXPECT_EQ(spans.hosts(), (std::vector<std::string>{"n1", "n2"}));
  EXPECT_EQ(spans.state(), "failed");
  EXPECT_EQ(spans.size(), 2);
  ASSERT_TRUE(spans.end().has_value());
  EXPECT_EQ(spans.end()->exit_code, 7);
  EXPECT_EQ(spans.end()->reason, "rank 1 on n2: exit code 7");
}

TEST(JobSpans, TheJobRunsWhenAllRanksAreUp) {
  EXPECT_EQ(spans_of({starting_at(0, 2), rank_up_at(10, 1), rank_up_at(20, 0), job_ended_at(30, 0)}),
            (std::vector<std::string>{"starting: 0..20", "running: 20..30", "n1 starting: 0..30", "n2 starting: 0..30",
                                      "n1 rank 0: 20..30", "n2 rank 1: 10..30"}));
}

TEST(JobSpans, ALaterGenerationMayHaveFewerRanks) {
  JobSpans spans;
  spans.add(starting_at(0, 2));
  for (const int rank : {0, 1}) spans.add(rank_up_at(10, rank));
  for (const int rank : {0, 1}) spans.add(rank_ended_at(20, rank, v1::RANK_END_KIND_STOPPED, 0, 15));
  spans.add(event_at(30, [](v1::Event& event) {
    v1::GenerationBegan& began = *event.mutable_generation_began();
    began.set_number(1);
    v1::PlacedHost& host = *began.mutable_placement()->add_hosts();
    host.set_name("n1");
    host.add_ranks()->set_rank(0);
  }));
  EXPECT_EQ(spans.size(), 1);
  EXPECT_EQ(spans.generation(), 1);
}

TEST(JobSpans, OnlyRanksThatFailByThemselvesAreErrors) {
  JobSpans spans;
  spans.add(starting_at(0, 4));
  spans.add(rank_ended_at(1, 0, v1::RANK_END_KIND_EXITED, 0));
  spans.add(rank_ended_at(2, 1, v1::RANK_END_KIND_SIGNALLED, 0, 11));
  spans.add(rank_ended_at(3, 2, v1::RANK_END_KIND_STOPPED, 0, 15));
  spans.add(rank_ended_at(4, 3, v1::RANK_END_KIND_HOST_LOST, 0));
  const auto ended = spans.take_spans();
  ASSERT_EQ(ended.size(), 4U);
  EXPECT_EQ(ended[0].error, "");
  EXPECT_EQ(ended[1].error, "signal 11 (Segmentation fault)");
  EXPECT_EQ(ended[2].error, "");
  EXPECT_EQ(ended[3].error, "host n4 was lost");
}

TEST(JobSpans, ProcessesKeepTheirSpansWhenNumbersChange) {
  JobSpans spans;
  spans.add(starting_at(0, 2));
  spans.add(rank_up_at(10, 0));
  spans.add(rank_up_at(20, 1));
  spans.add(event_at(30, [](v1::Event& event) {  // rank 0 is gone, and rank 1 is now rank 0
    v1::GenerationBegan& began = *event.mutable_generation_began();
    began.set_number(1);
    began.add_former(1);
    began.add_former(-1);
  }));
  spans.add(rank_up_at(40, 1));
  spans.add(rank_ended_at(50, 0, v1::RANK_END_KIND_EXITED, 0));
  const auto ended = spans.take_spans();
  const auto rank = std::ranges::find(ended, 0, &JobSpan::rank);
  ASSERT_NE(rank, ended.end());
  EXPECT_EQ(rank->begin, kEpoch + 20'000);
  EXPECT_EQ(rank->generation, 0);
}

TEST(JobSpans, TimesNeverGoBack) {
  JobSpans spans;
  spans.add(starting_at(1000, 1));
  spans.add(rank_up_at(2000, 0));
  spans.add(rank_ended_at(500, 0, v1::RANK_END_KIND_EXITED, 0));  // the clock was set back
  for (const JobSpan& span : spans.take_spans()) {
    EXPECT_LE(span.begin, span.end);
    EXPECT_GE(span.begin, kEpoch + 1'000'000);
  }
}

TEST(JobSpans, WhatRunsStillIsMarked) {
  JobSpans spans;
  spans.add(starting_at(0, 2));
  spans.add(rank_up_at(10, 0));
  spans.finish();
  for (const JobSpan& span : spans.take_spans()) EXPECT_NE(attribute(span.attributes, "unfinished"), nullptr);
  EXPECT_EQ(spans.end(), std::nullopt);
}

TEST(JobSpans, InstantsHaveTheirReasons) {
  JobSpans spans;
  for (const v1::Event& event : failed_job()) spans.add(event);
  const auto instants = spans.take_instants();
  ASSERT_EQ(instants.size(), 2U);
  EXPECT_EQ(instants[0].name, "stop");
  EXPECT_EQ(std::get<std::string>(*attribute(instants[0].attributes, "reason")), "rank 1 failed");
  EXPECT_EQ(std::get<std::int64_t>(*attribute(instants[1].attributes, "root_cause_rank")), 1);
}

}  // namespace
}  // namespace muster::launcherd::job_spans_test
