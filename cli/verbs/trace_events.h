// TraceEvents makes a trace of a job from its events, in the Trace Event Format of Chrome, which Perfetto opens. The
// launcher and each host are a process of the trace, and each rank is a thread of its host. All have one axis of time,
// which begins with the job's first event. Pure.
//
//   TraceEvents trace;
//   for (const v1::Event& event : events) trace.add(event);
//   const std::string document = trace.finish(job);
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline verbs {

class TraceEvents {
 public:
  // Call it for each event of the job, in order.
  void add(const v1::Event& event);
  // Returns the document. What has not ended, ends with the last event and has "unfinished" in its arguments. Call it
  // once.
  std::string finish(const v1::Job& job);

 private:
  struct Span {
    std::string name;
    std::int64_t begin = 0;
  };
  struct Host {
    int process = 0;  // its number in the trace
    std::optional<Span> span{};
  };
  struct Rank {
    std::string host;
    std::int64_t pid = 0;
    std::optional<std::int64_t> begin{};
  };

  void place(const v1::Placement& placement);
  void begin_phase(std::string_view name);
  void begin_host(const std::string& name, std::string_view what);
  void begin_rank(const v1::RankUp& up);
  void end_rank(const v1::RankEnd& end);
  void end_job(const v1::ExitReport& report);
  void end_all(std::string_view arguments);
  Host& host(const std::string& name);
  // Both add one entry. `arguments` are members of a JSON object.
  void add_span(const Span& span, int process, std::int64_t thread, std::string_view arguments);
  void add_instant(std::string_view name, int process, std::int64_t thread, std::string_view arguments);
  void name_thread(int process, std::int64_t thread, std::string_view name);

  std::optional<std::int64_t> first_;  // µs since 1970
  std::int64_t now_ = 0;               // µs since first_
  int generation_ = 0;
  std::optional<Span> phase_;
  std::map<std::string, Host> hosts_;
  std::map<int, Rank> ranks_;
  std::vector<std::string> entries_;
};

}  // namespace muster::cli::verbs
