#include "cli/view/history_scalars.h"

#include <gtest/gtest.h>

#include "tests/unit/cli/view/job_events.h"
#include "tests/unit/cli/view/tensorboard_events.h"

namespace muster::cli::history_scalars_test {
namespace {

using testing_support::JobEvents;

v1::HistoryPoint& point_at(google::protobuf::RepeatedPtrField<v1::HistoryPoint>& points, std::int64_t seconds) {
  v1::HistoryPoint& point = *points.Add();
  point.mutable_time()->set_seconds(seconds);
  return point;
}

std::vector<tensorboard::Event> written(const std::vector<HistoryRecord>& records) {
  std::string bytes;
  for (const HistoryRecord& record : records) bytes += tensorboard_record(record.time, record.step, record.values);
  return testing_support::tensorboard_events(bytes);
}

TEST(HistoryScalars, WritesPointsEventsAndScoresInTheOrderOfTime) {
  JobEvents events;
  events.starting(0, {"n1"}, 2).generation(25'000, 1, {"n1"}, 2, {}).ended(90'000, 0, -1);
  ReportedJob job;
  job.events = events.events;
  const std::int64_t begin = job.events.front().time().seconds();
  v1::RankLateness& late = *job.job.add_late();
  late.set_rank(1);
  late.set_host("n1");
  late.set_score(0.5);
  v1::HistoryResponse history;
  point_at(*history.mutable_job(), begin + 10).set_steps_per_second(7.5);
  point_at(*history.mutable_job(), begin + 20).set_output_bytes_per_second(900);
  v1::HostHistory& host = *history.add_hosts();
  host.set_host("n1");
  point_at(*host.mutable_points(), begin - 10).set_cpu_percent(99);  // another job's time
  v1::HistoryPoint& point = point_at(*host.mutable_points(), begin + 10);
  point.set_cpu_percent(42);
  point.set_memory_used_mib(512);
  point.set_gpu_percent(30);
  point.set_gpu_memory_used_mib(7);
  point.set_output_bytes_per_second(11);

  const base::WallTime now{std::chrono::seconds(begin + 100)};
  const auto records = history_scalars(job, history, now);
  EXPECT_TRUE(std::ranges::is_sorted(records, {}, &HistoryRecord::time));
  const auto made = written(records);
  EXPECT_EQ(made.front().step(), 10);
  EXPECT_EQ(made.back().step(), 100);
  auto scalars = testing_support::scalars_of(made);
  EXPECT_EQ(scalars["job/steps_per_second"], std::vector{7.5});
  EXPECT_EQ(scalars["job/output_bytes_per_second"], std::vector{900.0});
  EXPECT_EQ(scalars["job/generation"], std::vector{1.0});
  EXPECT_EQ(scalars["hosts_cpu_percent/n1"], std::vector{42.0});
  EXPECT_EQ(scalars["hosts_output_bytes_per_second/n1"], std::vector{11.0});
  EXPECT_EQ(scalars["straggler_score/rank_1"], std::vector{0.5});
  EXPECT_NE(testing_support::texts_of(made).find("generation 1"), std::string::npos);
}

TEST(HistoryScalars, AJobWithoutHistoryHasItsEvents) {
  JobEvents events;
  events.starting(0, {"n1"}, 1).ended(1000, 3, 0);
  ReportedJob job;
  job.events = events.events;
  const auto records = history_scalars(job, {}, base::WallTime(std::chrono::seconds(0)));
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].step, 1);
  EXPECT_EQ(records[0].values[0].tag, "job/events");
}

}  // namespace
}  // namespace muster::cli::history_scalars_test
