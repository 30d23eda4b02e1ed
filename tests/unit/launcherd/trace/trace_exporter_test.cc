// Tests TraceExporter with a collector on a real socket.
#include "launcherd/trace/trace_exporter.h"

#include <gtest/gtest.h>

#include "proto/wire/otlp.pb.h"
#include "tests/unit/launcherd/trace/fake_collector.h"

namespace muster::launcherd::trace_exporter_test {
namespace {

using std::chrono::milliseconds;
using testing_support::FakeCollector;

constexpr TraceExporter::Pauses kShort{.gather = milliseconds(1),
                                       .first_retry = milliseconds(1),
                                       .longest_retry = milliseconds(2),
                                       .give_up = milliseconds(20'000)};

// Lines that may come from another thread.
class Lines {
 public:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
    changed_.notify_all();
  }
  std::vector<std::string> all() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  std::vector<std::string> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [&] { return lines_.size() >= count; }));
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

TraceSpan span(const std::string& name) {
  TraceSpan span;
  span.context.trace_id.fill(1);
  span.context.span_id.fill(2);
  span.name = name;
  return span;
}

std::vector<std::string> names_of(const std::string& request) {
  otlp::ExportTraceServiceRequest message;
  EXPECT_TRUE(message.ParseFromString(FakeCollector::body_of(request)));
  std::vector<std::string> names;
  for (const otlp::Span& each : message.resource_spans(0).scope_spans(0).spans()) names.push_back(each.name());
  return names;
}

class TraceExporterTest : public ::testing::Test {
 protected:
  std::unique_ptr<TraceExporter> start(OtlpOptions options, TraceExporter::Pauses pauses = kShort) {
    auto exporter = TraceExporter::start(
        std::move(options), {.host = "n0", .version = "1"}, [this](const std::string& line) { lines_.add(line); },
        pauses);
    EXPECT_TRUE(exporter.ok()) << exporter.status();
    return *std::move(exporter);
  }

  FakeCollector collector_;
  Lines lines_;
};

TEST_F(TraceExporterTest, SendsWhatWaitsAtItsEnd) {
  TraceExporter::Pauses pauses = kShort;
  pauses.gather = milliseconds(60'000);
  const auto exporter = start(collector_.options(), pauses);
  exporter->add(span("a"));
  exporter->add(span("b"));
  exporter->stop(milliseconds(30'000));
  ASSERT_EQ(collector_.count(), 1U);
  EXPECT_EQ(names_of(collector_.wait_for(1).front()), (std::vector<std::string>{"a", "b"}));
  exporter->add(span("late"));
  EXPECT_TRUE(lines_.all().empty());
}

TEST_F(TraceExporterTest, ManySpansGoInSeveralRequests) {
  const auto exporter = start(collector_.options());
  for (std::size_t i = 0; i < 2 * TraceExporter::kSpansOfRequest + 1; ++i) exporter->add(span("x"));
  exporter->stop(milliseconds(30'000));
  std::size_t spans = 0;
  for (const std::string& request : collector_.wait_for(3)) {
    spans += names_of(request).size();
    EXPECT_LE(names_of(request).size(), TraceExporter::kSpansOfRequest);
  }
  EXPECT_EQ(spans, 2 * TraceExporter::kSpansOfRequest + 1);
}

TEST_F(TraceExporterTest, RepeatsWhatABusyCollectorRefuses) {
  collector_.answer_next(FakeCollector::reply(503, "Retry-After: 1\r\n"));
  collector_.answer_next(FakeCollector::reply(429));
  const auto exporter = start(collector_.options());
  exporter->add(span("a"));
  const auto requests = collector_.wait_for(3);
  EXPECT_EQ(requests[0], requests[2]);
  exporter->stop(milliseconds(30'000));
  EXPECT_EQ(collector_.count(), 3U);
  EXPECT_TRUE(lines_.all().empty());
}

TEST_F(TraceExporterTest, WarnsOnceOfALoss) {
  for (int i = 0; i < 2; ++i) collector_.answer_next(FakeCollector::reply(401));
  const auto exporter = start(collector_.options());
  exporter->add(span("a"));
  collector_.wait_for(1);
  lines_.wait_for(1);
  exporter->add(span("b"));
  collector_.wait_for(2);
  exporter->stop(milliseconds(30'000));
  ASSERT_EQ(lines_.all().size(), 1U);
  EXPECT_TRUE(lines_.all()[0].starts_with("1 span of traces did not reach http://127.0.0.1:")) << lines_.all()[0];
  EXPECT_TRUE(lines_.all()[0].ends_with("it answered 401; check OTEL_EXPORTER_OTLP_HEADERS")) << lines_.all()[0];
}

TEST_F(TraceExporterTest, ReportsWhatTheCollectorDropped) {
  otlp::ExportTraceServiceResponse response;
  response.mutable_partial_success()->set_rejected_spans(1);
  response.mutable_partial_success()->set_error_message("too old");
  collector_.answer_next(FakeCollector::reply(200, "", response.SerializeAsString()));
  const auto exporter = start(collector_.options());
  exporter->add(span("a"));
  exporter->stop(milliseconds(30'000));
  ASSERT_EQ(lines_.all().size(), 1U);
  EXPECT_TRUE(lines_.all()[0].ends_with("it refused them: too old"));
}

TEST_F(TraceExporterTest, GivesUpAfterALimit) {
  TraceExporter::Pauses pauses = kShort;
  pauses.give_up = milliseconds(0);
  collector_.answer_next(FakeCollector::reply(503));
  const auto exporter = start(collector_.options(), pauses);
  exporter->add(span("a"));
  EXPECT_TRUE(lines_.wait_for(1)[0].ends_with("it answered 503"));
  EXPECT_EQ(collector_.count(), 1U);
}

TEST_F(TraceExporterTest, ASilentCollectorDelaysTheEndByTheLimitOnly) {
  collector_.answer_next("");
  const auto exporter = start(collector_.options());
  exporter->add(span("a"));
  collector_.wait_for(1);
  exporter->stop(milliseconds(10));
  ASSERT_EQ(lines_.all().size(), 1U);
  EXPECT_TRUE(lines_.all()[0].ends_with("it did not answer before the end")) << lines_.all()[0];
}

TEST_F(TraceExporterTest, AMissingCollectorDoesNotDelayTheEnd) {
  OtlpOptions options = collector_.options();
  options.url.port = 1;
  const auto exporter = start(options, TraceExporter::Pauses());
  exporter->add(span("a"));
  const auto before = std::chrono::steady_clock::now();
  exporter->stop(milliseconds(60'000));
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(30));
  ASSERT_EQ(lines_.all().size(), 1U);
  EXPECT_NE(lines_.all()[0].find("no connection: "), std::string::npos) << lines_.all()[0];
}

TEST_F(TraceExporterTest, MemoryIsBounded) {
  collector_.answer_next("");  // the first request never ends
  const auto exporter = start(collector_.options());
  exporter->add(span("first"));
  collector_.wait_for(1);
  for (std::size_t i = 0; i < TraceExporter::kMostSpans + 10; ++i) exporter->add(span("x"));
  exporter->stop(milliseconds(10));
  EXPECT_EQ(lines_.all().size(), 1U);
}

TEST_F(TraceExporterTest, WrongCertificatesAreAnError) {
  OtlpOptions options = collector_.options();
  options.url.is_tls = true;
  options.certificate = "/missing";
  const auto exporter = TraceExporter::start(options, {}, [](const std::string&) {});
  EXPECT_EQ(exporter.status().code(), base::Code::kInvalidArgument);
}

}  // namespace
}  // namespace muster::launcherd::trace_exporter_test
