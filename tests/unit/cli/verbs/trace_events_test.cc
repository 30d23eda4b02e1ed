#include "cli/verbs/trace_events.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace muster::cli::trace_events_test {
namespace {

class TraceEventsTest : public ::testing::Test {
 protected:
  // Adds an event at this time, in ms.
  template <typename Fill>
  void at(int milliseconds, Fill fill) {
    v1::Event event;
    event.mutable_time()->set_seconds(1'782'000'000 + milliseconds / 1000);
    event.mutable_time()->set_nanos(milliseconds % 1000 * 1'000'000);
    fill(event);
    trace_.add(event);
  }
  void state(int milliseconds, v1::JobState to) {
    at(milliseconds, [&](v1::Event& event) { event.mutable_job_state_changed()->set_state(to); });
  }
  void starting(int milliseconds) {
    at(milliseconds, [](v1::Event& event) {
      for (const int rank : {0, 1}) {
        v1::PlacedHost& host = *event.mutable_job_starting()->mutable_placement()->add_hosts();
        host.set_name(fmt::format("n{}", rank + 1));
        host.add_ranks()->set_rank(rank);
      }
    });
  }
  void up(int milliseconds, int rank) {
    at(milliseconds, [&](v1::Event& event) {
      event.mutable_rank_up()->set_rank(rank);
      event.mutable_rank_up()->set_pid(100 + rank);
    });
  }
  void ended(int milliseconds, int rank, int code) {
    at(milliseconds, [&](v1::Event& event) {
      v1::RankEnd& end = *event.mutable_rank_ended();
      end.set_rank(rank);
      end.set_host(fmt::format("n{}", rank + 1));
      end.set_pid(100 + rank);
      end.set_kind(v1::RANK_END_KIND_EXITED);
      end.set_exit_code(code);
    });
  }
  void finish() {
    v1::Job job;
    job.set_id("k7abcdef");
    job.set_name("a \"night\"");
    auto parsed = base::parse_json(trace_.finish(job));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    document_ = *std::move(parsed);
  }
  // Returns the spans as "process/thread: name from..to", in the order of their ends.
  std::vector<std::string> spans() const {
    std::vector<std::string> all;
    for (const base::JsonNode& entry : document_.array_at("traceEvents")) {
      if (entry.text_at("ph") != "X") continue;
      const auto begin = entry.number_at("ts").value_or(-1);
      all.push_back(fmt::format("{}/{}: {} {}..{}", *entry.number_at("pid"), *entry.number_at("tid"),
                                entry.text_at("name"), begin / 1000,
                                (begin + entry.number_at("dur").value_or(-1)) / 1000));
    }
    return all;
  }

  TraceEvents trace_;
  base::JsonNode document_;
};

TEST_F(TraceEventsTest, LauncherHostsAndRanksShareAnAxis) {
  state(0, v1::JOB_STATE_QUEUED);
  starting(500);
  at(700, [](v1::Event& event) { event.mutable_host_up()->set_host("n1"); });
  at(800, [](v1::Event& event) { event.mutable_host_up()->set_host("n2"); });
  up(900, 0);
  up(1000, 1);
  state(1000, v1::JOB_STATE_RUNNING);
  ended(5000, 1, 7);
  at(5100, [](v1::Event& event) { event.mutable_job_stopping()->set_reason("rank 1 failed"); });
  ended(6000, 0, 0);
  at(6500, [](v1::Event& event) { event.mutable_job_ended()->set_exit_code(7); });
  finish();
  EXPECT_EQ(spans(), (std::vector<std::string>{"1/1: queued 0..500", "2/2: starting 500..700", "3/3: starting 500..800",
                                               "1/1: starting 500..1000", "3/1000001: rank 1 1000..5000",
                                               "1/1: running 1000..5100", "2/1000000: rank 0 900..6000",
                                               "1/1: stopping 5100..6500", "2/2: up 700..6500", "3/3: up 800..6500"}));
  std::vector<std::string> names;
  for (const base::JsonNode& entry : document_.array_at("traceEvents")) {
    if (entry.text_at("name") == "process_name") names.emplace_back(entry.find("args")->text_at("name"));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"launcher: job k7abcdef a \"night\"", "n1", "n2"}));
  EXPECT_EQ(document_.find("otherData")->number_at("began_us"), 1'782'000'000'000'000);
}

TEST_F(TraceEventsTest, WhatRunsStillIsMarked) {
  starting(0);
  up(10, 0);
  state(20, v1::JOB_STATE_RUNNING);
  finish();
  const auto& entries = document_.array_at("traceEvents");
  const auto rank =
      std::ranges::find_if(entries, [](const base::JsonNode& entry) { return entry.text_at("name") == "rank 0"; });
  ASSERT_NE(rank, entries.end());
  EXPECT_TRUE(rank->find("args")->is_true_at("unfinished"));
  EXPECT_EQ(rank->number_at("dur"), 10'000);
}

TEST_F(TraceEventsTest, GenerationsHaveSpansOfTheirOwn) {
  starting(0);
  up(10, 0);
  ended(20, 0, 1);
  at(30, [](v1::Event& event) {
    event.mutable_job_restarting()->set_attempt(1);
    event.mutable_job_restarting()->set_reason("rank 0 failed");
  });
  up(40, 0);
  ended(50, 0, 0);
  at(60, [](v1::Event& event) { event.mutable_job_ended()->set_root_cause_rank(-1); });
  finish();
  std::vector<std::int64_t> generations;
  for (const base::JsonNode& entry : document_.array_at("traceEvents")) {
    if (entry.text_at("ph") == "X" && entry.text_at("name") == "rank 0") {
      generations.push_back(entry.find("args")->number_at("generation").value_or(-1));
    }
  }
  EXPECT_EQ(generations, (std::vector<std::int64_t>{0, 1}));
}

TEST_F(TraceEventsTest, WithoutEventsItIsStillATrace) {
  finish();
  EXPECT_TRUE(spans().empty());
}

}  // namespace
}  // namespace muster::cli::trace_events_test
