// Tests the traces of jobs of a JobManager. No agent can be started here, so each job that starts fails.
// tests/daemon/test_traces.py tests the same with agents.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "launcherd/trace/job_trace.h"
#include "proto/stored_event.h"
#include "proto/wire/otlp.pb.h"
#include "tests/unit/launcherd/daemon/job_manager_rig.h"
#include "tests/unit/launcherd/trace/fake_collector.h"

namespace muster::launcherd::job_manager_trace_test {
namespace {

using namespace testing_support;

constexpr const char* kParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

v1::SubmitRequest with_parent(v1::SubmitRequest request, const std::string& parent) {
  v1::EnvVar& variable = *request.add_environment();
  variable.set_name("TRACEPARENT");
  variable.set_value(parent);
  return request;
}

class JobManagerTrace : public JobManagerRig {
 protected:
  JobManagerTrace() {
    auto exporter = TraceExporter::start(collector_.options(), {}, [](const std::string&) {});
    EXPECT_TRUE(exporter.ok()) << exporter.status();
    exporter_ = *std::move(exporter);
    begin_again();
  }
  ~JobManagerTrace() override { end(); }

  // Ends the JobManager, and lets a new one read the store, as a restart of launcherd does.
  void begin_again() {
    end();
    traces_ = std::make_unique<JobTraces>(exporter_.get());
    traces_in_use_ = traces_.get();
    begin();
  }
  std::string submitted(const v1::SubmitRequest& request) {
    const auto response = submit(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? response->job_id() : "";
  }
  void kill(const std::string& id) {
    manager_->kill(testing_store::job_id(id), false, [this](const base::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      count();
    });
    run_until(done_ + 2);  // the reply and the end
  }
  // Submits an array with elements 3 and 4, and waits for nothing.
  std::string submitted_array() {
    v1::SubmitRequest request = with_parent(request_of(1), kParent);
    v1::IndexRange& range = *request.mutable_array()->add_elements();
    range.set_first(3);
    range.set_last(4);
    return submitted(request);
  }
  // Stores element 3 of the array as one that has started, and then these events of it.
  void store_element(const std::string& array, const std::string& id, const std::vector<model::JobEvent>& events) {
    using testing_store::at;
    end();
    testing_store::NewJob element{.id = testing_store::job_id(id), .submitted = at(0)};
    element.element = ArrayPlace{testing_store::job_id(array), 3};
    v1::StoredSpec spec;
    *spec.mutable_request()->mutable_spec() = request_of(1).spec();
    spec.set_size(1);
    element.spec = spec.SerializeAsString();
    Batch batch = {element};
    testing_store::NewEvent starts = testing_store::step(id, model::JobState::kStarting);
    starts.message = proto::stored_event(model::JobStateChanged{model::JobState::kStarting, ""}, at(2));
    batch.push_back(starts);
    for (const model::JobEvent& event : events) {
      batch.push_back(testing_store::plain_event(id, proto::stored_event(event, at(2))));
    }
    BatchWriter writer = testing_store::open_writer(path());
    ASSERT_TRUE(testing_store::commit(writer, batch).ok());
  }
  std::vector<otlp::Span> sent() {
    exporter_->stop(std::chrono::seconds(30));
    return collector_.spans();
  }
  static const otlp::Span* named(const std::vector<otlp::Span>& spans, const std::string& name) {
    const auto found = std::ranges::find(spans, name, &otlp::Span::name);
    return found == spans.end() ? nullptr : &*found;
  }

  FakeCollector collector_;
  std::unique_ptr<TraceExporter> exporter_;
  std::unique_ptr<JobTraces> traces_;
};

TEST_F(JobManagerTrace, AJobThatCannotStartIsAFailedTrace) {
  const std::string id = submitted(with_parent(request_of(1), kParent));
  manager_->on_change = [this](const base::JobId&) { count(); };  // events that are stored
  while (traces_->context_of(id)) run_until(done_ + 1);
  const auto spans = sent();
  const otlp::Span* const root = named(spans, "job");
  ASSERT_NE(root, nullptr);
  EXPECT_EQ(root->status().code(), otlp::Status::STATUS_CODE_ERROR);
  EXPECT_EQ(root->parent_span_id(), std::string("\x00\xf0\x67\xaa\x0b\xa9\x02\xb7", 8));
  ASSERT_NE(named(spans, "job queued"), nullptr);
  EXPECT_EQ(named(spans, "job queued")->parent_span_id(), root->span_id());
}

TEST_F(JobManagerTrace, ALaterLauncherdGoesOnInTheSameTrace) {
  drain_all();
  const std::string id = submitted(with_parent(request_of(1), kParent));
  const auto before = traces_->context_of(id);
  ASSERT_TRUE(before.has_value());
  begin_again();
  EXPECT_EQ(traces_->context_of(id), before);
  kill(id);
  EXPECT_EQ(traces_->context_of(id), std::nullopt);
  const auto spans = sent();
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].name(), "job queued");
  EXPECT_EQ(spans[0].trace_id(), spans[1].trace_id());
  EXPECT_LE(spans[1].start_time_unix_nano(), spans[0].start_time_unix_nano());
}

TEST_F(JobManagerTrace, AJobWithoutParentHasATraceOfItsOwn) {
  drain_all();
  const std::string one = submitted(request_of(1));
  const std::string other = submitted(request_of(1));
  EXPECT_NE(traces_->context_of(one)->trace_id, traces_->context_of(other)->trace_id);
  EXPECT_EQ(traces_->parent_of(one), std::nullopt);
  const auto before = traces_->context_of(one);
  begin_again();
  EXPECT_EQ(traces_->context_of(one), before);
}

TEST_F(JobManagerTrace, AWrongParentIsIgnoredWithAWarning) {
  drain_all();
  const std::string id = submitted(with_parent(request_of(1), "s3cret"));
  EXPECT_EQ(traces_->parent_of(id), std::nullopt);
  EXPECT_TRUE(traces_->context_of(id).has_value());
  ASSERT_EQ(lines_.size(), 1U);
  EXPECT_TRUE(lines_[0].starts_with("job " + id + ": it begins a trace of its own: TRACEPARENT: too short; "));
  EXPECT_EQ(lines_[0].find("s3cret"), std::string::npos) << lines_[0];
}

TEST_F(JobManagerTrace, ElementsOfAnArrayHaveTracesWithTheSameParent) {
  const std::string id = submitted_array();
  while (manager_->is_open(testing_store::job_id(id))) run_until(done_ + 1);
  std::set<std::string> indices;
  for (const otlp::Span& span : sent()) {
    EXPECT_EQ(span.trace_id().substr(0, 2), "\x4b\xf9");
    if (span.name() != "job") continue;
    EXPECT_EQ(span.parent_span_id(), std::string("\x00\xf0\x67\xaa\x0b\xa9\x02\xb7", 8));
    for (const otlp::KeyValue& each : span.attributes()) {
      if (each.key() == "muster.array.index") indices.insert(std::to_string(each.value().int_value()));
    }
  }
  EXPECT_EQ(indices, (std::set<std::string>{"3", "4"}));
}

// The records of the element are incomplete, so the next launcherd ends it.
TEST_F(JobManagerTrace, ALaterLauncherdReadsAllEventsOfAnElement) {
  drain_all();
  const std::string array = submitted_array();
  std::vector<model::JobEvent> events(kLongestPage, model::FirstCollectiveEnded{});
  events.emplace_back(model::JobRestarting{.attempt = 7, .rank = 0, .reason = "rank 0 failed"});
  store_element(array, "bbbbbbbb", events);
  begin_again();
  const auto parent = traces_->parent_of(array);
  ASSERT_TRUE(parent.has_value());
  EXPECT_EQ(traces_->parent_of("bbbbbbbb"), parent);
  const auto expected = model::trace_of_job(parent, "bbbbbbbb", testing_store::at(0));
  EXPECT_EQ(traces_->context_of("bbbbbbbb"), expected);
  manager_->on_change = [this](const base::JobId&) { count(); };
  while (traces_->context_of("bbbbbbbb")) run_until(done_ + 1);
  const auto spans = sent();
  const otlp::Span* const root = named(spans, "job");
  ASSERT_NE(root, nullptr);
  std::map<std::string, std::int64_t> numbers;
  for (const otlp::KeyValue& each : root->attributes()) numbers[each.key()] = each.value().int_value();
  EXPECT_EQ(numbers["muster.generation"], 7);
  EXPECT_EQ(numbers["muster.array.index"], 3);
}

}  // namespace
}  // namespace muster::launcherd::job_manager_trace_test
