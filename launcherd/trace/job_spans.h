// JobSpans makes spans of a job from its events: the phases of the job, when each host came up and was up, and when
// each rank ran. `muster trace` and the exporter of OpenTelemetry use the same spans. Pure.
//
//   JobSpans spans;
//   for (const v1::Event& event : events) spans.add(event);
//   spans.finish();
//   for (const JobSpan& span : spans.take_spans()) ...
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline trace {

using AttributeValue = std::variant<std::int64_t, bool, std::string>;
using SpanAttributes = std::vector<std::pair<std::string, AttributeValue>>;

// All times are µs since 1970. They never go back within a job, even if a clock is set back.
struct JobSpan {
  std::string name{};  // of a phase: "running"; of a host: "starting", "up"; of a rank: "rank 3"
  std::string host{};  // empty for a phase of the job
  int rank = -1;       // -1 for phases and hosts
  int generation = 0;  // in which the span began
  std::int64_t begin = 0;
  std::int64_t end = 0;
  SpanAttributes attributes{};
  std::string error{};  // how the rank failed by itself; empty if it did not
};

// Something that happened at one time, to the job or to one of its hosts.
struct JobInstant {
  std::string name{};
  std::string host{};  // empty for the job
  std::int64_t time = 0;
  SpanAttributes attributes{};
};

// How a job has ended.
struct JobSpanEnd {
  int exit_code = 0;
  std::string reason{};  // one phrase for people; may be empty
};

class JobSpans {
 public:
  // Call it for each event of the job, in order.
  void add(const v1::Event& event);
  // Ends what has not ended, with "unfinished" in its attributes. Call it after the last event.
  void finish();

  // Both return what was added since the last call, in the order of their ends.
  std::vector<JobSpan> take_spans() { return std::exchange(spans_, {}); }
  std::vector<JobInstant> take_instants() { return std::exchange(instants_, {}); }

  // Hosts in the order in which the job got them.
  const std::vector<std::string>& hosts() const { return host_order_; }
  std::int64_t first() const { return first_.value_or(0); }  // time of the first event; 0 if there was none
  std::int64_t last() const { return first() + now_; }
  int generation() const { return generation_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  const std::string& state() const { return state_; }            // "running"; empty if it is not known yet
  const std::optional<JobSpanEnd>& end() const { return end_; }  // nullopt until JobEnded

 private:
  struct Open {
    std::string name;
    std::int64_t begin = 0;
  };
  struct Rank {
    std::string host{};
    std::int64_t pid = 0;
    int generation = 0;
    std::optional<std::int64_t> begin{};
  };

  void begin_generation(const v1::GenerationBegan& began);
  void place(const v1::Placement& placement);
  void begin_phase(std::string_view name);
  void begin_host(const std::string& name, std::string_view what);
  void begin_rank(const v1::RankUp& up);
  void end_rank(const v1::RankEnd& end);
  void change_state(const v1::JobStateChanged& change);
  void end_job(const v1::ExitReport& report);
  void end_all(bool is_unfinished);
  std::optional<Open>& host(const std::string& name);
  // All three add what has ended now.
  void add_span(const Open& open, const std::string& host, bool is_unfinished);
  void add_rank(int number, Rank& rank, SpanAttributes attributes, std::string error);
  void add_instant(std::string_view name, const std::string& host, SpanAttributes attributes);

  std::optional<std::int64_t> first_;
  std::int64_t now_ = 0;  // µs since first_
  int generation_ = 0;
  std::string state_;
  std::string reason_;
  std::optional<Open> phase_;
  std::vector<std::string> host_order_;
  std::map<std::string, std::optional<Open>> hosts_;
  std::map<int, Rank> ranks_;
  std::size_t started_ = 0;  // ranks of this generation that came up
  std::optional<JobSpanEnd> end_;
  std::vector<JobSpan> spans_;
  std::vector<JobInstant> instants_;
};

}  // namespace muster::launcherd::trace
