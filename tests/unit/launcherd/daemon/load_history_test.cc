#include "launcherd/daemon/load_history.h"

#include <gtest/gtest.h>

namespace muster::launcherd::load_history_test {
namespace {

base::WallTime at(long seconds) {
  return base::WallTime(std::chrono::seconds(1'700'000'000 + seconds));
}

v1::HostLoad load(int cpu, std::int64_t memory) {
  v1::HostLoad load;
  load.set_cpu_percent(cpu);
  load.set_memory_used_mib(memory);
  return load;
}

LoadSample sample(std::uint64_t output, std::vector<LoadSample::Job> jobs = {}) {
  return {.hosts = {{.name = "n1", .output_bytes = output}}, .jobs = std::move(jobs)};
}

v1::HistoryResponse answer(const LoadHistory& history, const v1::HistoryRequest& request = {},
                           const std::vector<std::string>& hosts = {"n1"}) {
  const auto response = history.answer(request, hosts);
  EXPECT_TRUE(response.ok()) << response.status();
  return response.ok() ? *response : v1::HistoryResponse();
}

TEST(LoadHistory, APointIsTheAverageOfItsPeriod) {
  LoadHistory history;
  history.close_period(at(0), sample(1000), {"n1"});
  history.add_report("n1", load(10, 1000));
  history.add_report("n1", load(31, 3000));
  history.close_period(at(10), sample(6000), {"n1"});
  const v1::HistoryResponse response = answer(history);
  ASSERT_EQ(response.hosts_size(), 1);
  ASSERT_EQ(response.hosts(0).points_size(), 2);
  const v1::HistoryPoint& first = response.hosts(0).points(0);
  EXPECT_FALSE(first.has_cpu_percent());
  EXPECT_FALSE(first.has_output_bytes_per_second());
  const v1::HistoryPoint& point = response.hosts(0).points(1);
  EXPECT_EQ(point.time().seconds(), 1'700'000'010);
  EXPECT_EQ(point.cpu_percent(), 21);
  EXPECT_EQ(point.memory_used_mib(), 2000);
  EXPECT_EQ(point.output_bytes_per_second(), 500);
  EXPECT_FALSE(point.has_gpu_percent());
  EXPECT_FALSE(point.has_gpu_memory_used_mib());
  EXPECT_FALSE(point.has_steps_per_second());
}

TEST(LoadHistory, GpusOfAHostAreAveragedAndTheirMemoryIsAddedUp) {
  LoadHistory history;
  v1::HostLoad report = load(5, 100);
  for (const int busy : {20, 40}) {
    v1::GpuLoad& gpu = *report.add_gpus();
    gpu.set_busy_percent(busy);
    gpu.set_memory_used_mib(1000);
  }
  v1::GpuLoad& divided = *report.add_gpus();
  divided.set_busy_unknown(true);
  history.add_report("n1", report);
  history.close_period(at(10), sample(0), {"n1"});
  const v1::HistoryPoint point = answer(history).hosts(0).points(0);
  EXPECT_EQ(point.gpu_percent(), 30);
  EXPECT_EQ(point.gpu_memory_used_mib(), 2000);
}

TEST(LoadHistory, NetworkIsAveragedPerHostAndAddedUpPerJob) {
  LoadHistory history;
  v1::HostLoad report = load(5, 100);
  report.set_network_bytes_per_second(1'000'000);
  history.add_report("n1", report);
  report.set_network_bytes_per_second(3'000'000);
  history.add_report("n1", report);
  report.set_network_bytes_per_second(-7);  // no agent sends this
  history.add_report("n2", report);
  history.add_report("n3", load(5, 100));
  LoadSample now{.hosts = {}, .jobs = {{.id = "k7", .output_rate = {}, .hosts = {"n1", "n2", "n3"}}}};
  history.close_period(at(10), now, {"n1", "n2", "n3"});
  v1::HistoryRequest request;
  request.set_job("k7");
  const v1::HistoryResponse response = answer(history, request, {"n1", "n2", "n3"});
  EXPECT_EQ(response.hosts(0).points(0).network_bytes_per_second(), 2'000'000);
  EXPECT_EQ(response.hosts(1).points(0).network_bytes_per_second(), 0);
  EXPECT_FALSE(response.hosts(2).points(0).has_network_bytes_per_second());
  EXPECT_EQ(response.job(0).network_bytes_per_second(), 2'000'000);
}

TEST(LoadHistory, StepsOfAJobAreARate) {
  LoadHistory history;
  const auto close = [&](long time, std::optional<std::uint64_t> steps) {
    history.close_period(at(time), sample(0, {{.id = "k7", .output_rate = {}, .hosts = {"n1"}, .steps = steps}}),
                         {"n1"});
  };
  close(0, std::nullopt);
  close(10, 100);
  close(20, 125);
  close(30, 125);
  close(40, 3);  // the counter has begun again
  v1::HistoryRequest request;
  request.set_job("k7");
  const v1::HistoryResponse response = answer(history, request);
  ASSERT_EQ(response.job_size(), 5);
  EXPECT_FALSE(response.job(0).has_steps_per_second());
  EXPECT_FALSE(response.job(1).has_steps_per_second());
  EXPECT_DOUBLE_EQ(response.job(2).steps_per_second(), 2.5);
  EXPECT_DOUBLE_EQ(response.job(3).steps_per_second(), 0);
  EXPECT_TRUE(response.job(3).has_steps_per_second());
  EXPECT_FALSE(response.job(4).has_steps_per_second());
}

TEST(LoadHistory, KeepsAnHourInAFixedSpace) {
  LoadHistory history;
  constexpr long kPeriods = 1000;
  for (long i = 0; i < kPeriods; ++i) {
    history.add_report("n1", load(static_cast<int>(i % 100), 1));
    history.close_period(at(i * 10), sample(0), {"n1"});
  }
  const auto points = answer(history).hosts(0).points();
  ASSERT_EQ(points.size(), static_cast<int>(LoadRing::kMostPoints));
  EXPECT_EQ(points.rbegin()->time().seconds(), 1'700'000'000 + (kPeriods - 1) * 10);
  for (int i = 1; i < points.size(); ++i) EXPECT_EQ(points[i].time().seconds() - points[i - 1].time().seconds(), 10);
  EXPECT_EQ(LoadHistory::kBytesEach, 10'080U);  // the documents name this number
}

TEST(LoadHistory, AJobsPointsComeFromItsHostsUntilItEnds) {
  LoadHistory history;
  history.add_report("n1", load(10, 1000));
  history.add_report("n2", load(30, 500));
  history.add_report("n3", load(90, 9000));
  const std::vector<LoadSample::Job> jobs{{.id = "k7abcdef", .output_rate = 77, .hosts = {"n1", "n2", "n4"}}};
  history.close_period(at(10), sample(0, jobs), {"n1", "n2", "n3"});
  v1::HistoryRequest request;
  request.set_job("k7abcdef");
  const v1::HistoryResponse response = answer(history, request, {"n1", "n2"});
  ASSERT_EQ(response.job_size(), 1);
  EXPECT_EQ(response.job(0).cpu_percent(), 20);
  EXPECT_EQ(response.job(0).memory_used_mib(), 1500);
  EXPECT_EQ(response.job(0).output_bytes_per_second(), 77);
  EXPECT_EQ(response.hosts_size(), 2);
  history.close_period(at(20), sample(0), {"n1", "n2", "n3"});
  EXPECT_EQ(answer(history, request, {}).job_size(), 0);
}

TEST(LoadHistory, AHostThatIsSilentGetsNoPoints) {
  LoadHistory history;
  history.add_report("n1", load(10, 1000));
  history.close_period(at(10), sample(0), {"n1"});
  history.close_period(at(20), {}, {"n1"});
  EXPECT_EQ(answer(history).hosts(0).points_size(), 1);
  history.close_period(at(30), {}, {"n2"});  // n1 has left the list
  EXPECT_EQ(answer(history).hosts(0).points_size(), 0);
}

TEST(LoadHistory, AnswersWhatWasAskedFor) {
  LoadHistory history;
  for (long i = 0; i < 10; ++i) {
    history.add_report("n1", load(1, 1));
    history.close_period(at(i * 10), sample(0), {"n1", "n2"});
  }
  v1::HistoryRequest request;
  request.mutable_since()->set_seconds(1'700'000'070);
  EXPECT_EQ(answer(history, request).hosts(0).points_size(), 2);
  request.add_hosts("n2");
  EXPECT_EQ(answer(history, request, {"n1", "n2"}).hosts(0).host(), "n2");
  request.add_hosts("n9");
  EXPECT_EQ(history.answer(request, {"n1", "n2"}).status().code(), base::Code::kNotFound);
}

TEST(LoadHistory, AnAnswerForManyHostsHasTheNewestPoints) {
  LoadHistory history;
  std::vector<std::string> names;
  for (int i = 0; i < 4000; ++i) names.push_back(fmt::format("n{}", i));
  for (long period = 0; period < 30; ++period) {
    for (const std::string& name : names) history.add_report(name, load(1, 1));
    history.close_period(at(period * 10), {}, names);
  }
  const v1::HistoryResponse response = answer(history, {}, names);
  ASSERT_EQ(response.hosts_size(), 4000);
  ASSERT_EQ(response.hosts(0).points_size(), 25);
  EXPECT_EQ(response.hosts(0).points(24).time().seconds(), 1'700'000'290);
  EXPECT_LT(response.ByteSizeLong(), std::size_t{4} << 20);  // gRPC's limit for a received message
}

}  // namespace
}  // namespace muster::launcherd::load_history_test
