// Tests JobTracing with a collector on a real socket.
#include "cli/run/job_tracing.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include "proto/wire/otlp.pb.h"
#include "tests/unit/launcherd/trace/fake_collector.h"

namespace muster::cli::job_tracing_test {
namespace {

using testing_support::FakeCollector;

constexpr const char* kEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT";

class Ignored final : public launcherd::JobObserver {
 public:
  void on_progress(int, int, const std::vector<std::string>&) override {}
  void on_running() override {}
  void on_note(const std::string&) override {}
  void on_warning(const std::string&) override {}
  void on_root_cause(const model::RankEnd&) override {}
  void on_finished(const launcherd::JobOutcome&) override {}
};

class JobTracingTest : public ::testing::Test {
 protected:
  JobTracingTest() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe(ends), 0);
    read_ = base::UniqueFd(ends[0]);
    write_ = base::UniqueFd(ends[1]);
    terminal_.emplace(write_.get(), "stderr");
    notices_.emplace(&*terminal_);
  }

  std::unique_ptr<JobTracing> start(const std::vector<std::pair<std::string, std::string>>& variables) {
    base::Environment environment;
    for (const auto& [name, value] : variables) environment.set(name, value);
    return JobTracing::start(environment, "k7abcdef", "night", clock_, *notices_);
  }
  // Returns all lines. Call it once.
  std::string lines() {
    EXPECT_TRUE(notices_->flush_blocking(clock_.now() + std::chrono::seconds(30)));
    notices_.reset();
    terminal_.reset();
    write_.reset();
    std::string text;
    char buffer[4096];
    for (ssize_t count = 0; (count = ::read(read_.get(), buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<std::size_t>(count));
    }
    return text;
  }
  std::string endpoint() const { return collector_.options().url.shown(); }

  base::SystemClock clock_;
  FakeCollector collector_;
  base::UniqueFd read_, write_;
  std::optional<launcherd::Terminal> terminal_;
  std::optional<launcherd::NoticeWriter> notices_;
};

TEST_F(JobTracingTest, WithoutAnEndpointNothingIsSent) {
  EXPECT_EQ(start({}), nullptr);
  EXPECT_EQ(start({{"TRACEPARENT", "wrong"}}), nullptr);
  EXPECT_EQ(lines(), "");
}

TEST_F(JobTracingTest, WrongVariablesAreWarnings) {
  EXPECT_EQ(start({{kEndpoint, "collector"}}), nullptr);
  EXPECT_EQ(start({{kEndpoint, "https://c"}, {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/missing"}}), nullptr);
  EXPECT_NE(start({{kEndpoint, "http://127.0.0.1:1"}, {"TRACEPARENT", "00-wrong"}}), nullptr);
  const std::string all = lines();
  EXPECT_NE(all.find("hvdrun: OTEL_EXPORTER_OTLP_ENDPOINT: "), std::string::npos) << all;
  EXPECT_NE(all.find("hvdrun: no trace is sent: OTEL_EXPORTER_OTLP_CERTIFICATE=/missing: "), std::string::npos) << all;
  EXPECT_NE(all.find("hvdrun: the job begins a trace of its own: TRACEPARENT: too short; "), std::string::npos) << all;
}

model::Placement one_rank() {
  model::Placement placement;
  placement.size = 1;
  placement.hosts.push_back({.host = {.name = "n1"}, .ranks = {{.rank = 0}}});
  return placement;
}

TEST_F(JobTracingTest, ARecordMayHaveEventsAfterItsEnd) {
  Ignored next;
  launcherd::JobRecord record("k7abcdef", {"true"}, one_rank(), clock_, &next);
  auto tracing = start({{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", endpoint()}});
  ASSERT_NE(tracing, nullptr);
  tracing->watch(record);
  tracing.reset();
  record.on_event(model::RankUp{.rank = 0, .pid = 7});  // the address sanitizer would find a call of the old watcher
  record.on_finished({});
  EXPECT_EQ(collector_.count(), 0U);
}

TEST_F(JobTracingTest, SendsTheEventsOfARecord) {
  {
    Ignored next;
    launcherd::JobRecord record("k7abcdef", {"true"}, one_rank(), clock_, &next);
    const auto tracing = start({{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", endpoint()}});
    ASSERT_NE(tracing, nullptr);
    tracing->watch(record);
    record.on_event(model::RankUp{.rank = 0, .pid = 7});
    record.on_finished({});
  }
  ASSERT_EQ(collector_.count(), 1U);
  otlp::ExportTraceServiceRequest message;
  ASSERT_TRUE(message.ParseFromString(FakeCollector::body_of(collector_.wait_for(1)[0])));
  std::vector<std::string> names;
  for (const otlp::Span& each : message.resource_spans(0).scope_spans(0).spans()) names.push_back(each.name());
  EXPECT_EQ(names, (std::vector<std::string>{"job starting", "job running", "host log-in", "rank 0", "job"}));
  EXPECT_EQ(lines(), "");
}

}  // namespace
}  // namespace muster::cli::job_tracing_test
