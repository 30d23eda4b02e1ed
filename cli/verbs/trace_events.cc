// Read TraceEvents::add first, then finish, then the functions for spans.
#include "cli/verbs/trace_events.h"

#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "base/strings.h"

namespace muster::cli::inline verbs {
namespace {

using base::json_quoted;

// Numbers of processes and threads in the trace. Perfetto wants numbers of threads that are unique in all processes.
constexpr int kLauncher = 1;
constexpr int kFirstHost = 2;
constexpr std::int64_t kFirstRank = 1'000'000;
constexpr std::string_view kUnfinished = R"("unfinished":true)";

std::int64_t microseconds_of(const google::protobuf::Timestamp& time) {
  return time.seconds() * 1'000'000 + time.nanos() / 1000;
}

// Returns "running" for JOB_STATE_RUNNING.
std::string phase_name(v1::JobState state) {
  constexpr std::string_view kPrefix = "JOB_STATE_";
  const std::string& name = v1::JobState_Name(state);
  return base::lower(name.starts_with(kPrefix) ? std::string_view(name).substr(kPrefix.size()) : name);
}

bool is_final_state(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED || state == v1::JOB_STATE_KILLED ||
         state == v1::JOB_STATE_LOST;
}

std::string reason_argument(const std::string& reason) {
  return reason.empty() ? "" : "\"reason\":" + json_quoted(reason);
}

}  // namespace

void TraceEvents::add(const v1::Event& event) {
  const std::int64_t time = microseconds_of(event.time());
  if (!first_) first_ = time;
  now_ = std::max(now_, time - *first_);  // a clock may be set back
  switch (event.body_case()) {
    case v1::Event::kJobStarting:
      begin_phase("starting");
      place(event.job_starting().placement());
      for (const auto& placed : event.job_starting().placement().hosts()) begin_host(placed.name(), "starting");
      return;
    case v1::Event::kHostUp:
      return begin_host(event.host_up().host(), "up");
    case v1::Event::kRankUp:
      return begin_rank(event.rank_up());
    case v1::Event::kRankEnded:
      return end_rank(event.rank_ended());
    case v1::Event::kHostSuspect:
      return add_instant(event.host_suspect().suspect() ? "suspect" : "answers again",
                         host(event.host_suspect().host()).process, host(event.host_suspect().host()).process, "");
    case v1::Event::kJobStopping:
      begin_phase("stopping");
      return add_instant("stop", kLauncher, kLauncher, reason_argument(event.job_stopping().reason()));
    case v1::Event::kJobRestarting:
      generation_ = event.job_restarting().attempt();
      return add_instant(fmt::format("generation {}", generation_), kLauncher, kLauncher,
                         reason_argument(event.job_restarting().reason()));
    case v1::Event::kGenerationBegan:
      generation_ = event.generation_began().number();
      place(event.generation_began().placement());
      return add_instant(fmt::format("generation {}", generation_), kLauncher, kLauncher,
                         reason_argument(event.generation_began().reason()));
    case v1::Event::kFirstCollectiveEnded:
      return add_instant("first collective", kLauncher, kLauncher,
                         fmt::format("\"generation\":{}", event.first_collective_ended().generation()));
    case v1::Event::kHangReported:
      return add_instant("hang", kLauncher, kLauncher, "\"cause\":" + json_quoted(event.hang_reported().cause()));
    case v1::Event::kJobStateChanged:
      if (!is_final_state(event.job_state_changed().state())) {
        begin_phase(phase_name(event.job_state_changed().state()));
      }
      return;
    case v1::Event::kJobEnded:
      return end_job(event.job_ended());
    default:
      return;
  }
}

std::string TraceEvents::finish(const v1::Job& job) {
  end_all(kUnfinished);
  const std::string name = job.name().empty() ? job.id() : job.id() + " " + job.name();
  const auto name_process = [&](int process, const std::string& text) {
    entries_.push_back(
        fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", process, json_quoted(text)));
    entries_.push_back(
        fmt::format(R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}})", process));
  };
  name_process(kLauncher, "launcher: job " + name);
  name_thread(kLauncher, kLauncher, "job");
  for (const auto& [host_name, each] : hosts_) {
    name_process(each.process, host_name);
    name_thread(each.process, each.process, "host");
  }
  return fmt::format(
      "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"job\":{},\"began_us\":{}}},\"traceEvents\":[\n{}\n]}}\n",
      json_quoted(job.id()), first_.value_or(0), fmt::join(entries_, ",\n"));
}

void TraceEvents::place(const v1::Placement& placement) {
  for (const v1::PlacedHost& placed : placement.hosts()) {
    host(placed.name());
    for (const v1::PlacedRank& rank : placed.ranks()) ranks_[rank.rank()].host = placed.name();
  }
}

void TraceEvents::begin_phase(std::string_view name) {
  if (phase_ && phase_->name == name) return;
  if (phase_) add_span(*phase_, kLauncher, kLauncher, "");
  phase_ = Span{.name = std::string(name), .begin = now_};
}

void TraceEvents::begin_host(const std::string& name, std::string_view what) {
  Host& entry = host(name);
  if (entry.span && entry.span->name == what) return;
  if (entry.span) add_span(*entry.span, entry.process, entry.process, "");
  entry.span = Span{.name = std::string(what), .begin = now_};
}

void TraceEvents::begin_rank(const v1::RankUp& up) {
  Rank& rank = ranks_[up.rank()];
  rank.pid = up.pid();
  rank.begin = now_;
}

void TraceEvents::end_rank(const v1::RankEnd& end) {
  Rank& rank = ranks_[end.rank()];
  if (!end.host().empty()) rank.host = end.host();
  const int process = host(rank.host).process;
  std::string arguments = fmt::format(R"("pid":{},"generation":{},"end":{},"exit_code":{})", end.pid(), generation_,
                                      json_quoted(v1::RankEndKind_Name(end.kind())), end.exit_code());
  if (end.signal() != 0) arguments += fmt::format(R"(,"signal":{})", end.signal());
  if (!end.detail().empty()) arguments += ",\"detail\":" + json_quoted(end.detail());
  const Span span{.name = fmt::format("rank {}", end.rank()), .begin = rank.begin.value_or(now_)};
  rank.begin.reset();
  name_thread(process, kFirstRank + end.rank(), span.name);
  add_span(span, process, kFirstRank + end.rank(), arguments);
}

void TraceEvents::end_job(const v1::ExitReport& report) {
  if (phase_) add_span(*std::exchange(phase_, std::nullopt), kLauncher, kLauncher, "");
  const std::string cause =
      report.root_cause_rank() < 0 ? "" : fmt::format(R"(,"root_cause_rank":{})", report.root_cause_rank());
  add_instant("end", kLauncher, kLauncher, fmt::format(R"("exit_code":{}{})", report.exit_code(), cause));
  end_all("");
}

void TraceEvents::end_all(std::string_view arguments) {
  if (phase_) add_span(*std::exchange(phase_, std::nullopt), kLauncher, kLauncher, arguments);
  for (auto& [name, entry] : hosts_) {
    if (entry.span) add_span(*std::exchange(entry.span, std::nullopt), entry.process, entry.process, arguments);
  }
  for (auto& [number, rank] : ranks_) {
    if (!rank.begin) continue;
    const int process = host(rank.host).process;
    name_thread(process, kFirstRank + number, fmt::format("rank {}", number));
    add_span(
        {.name = fmt::format("rank {}", number), .begin = *std::exchange(rank.begin, std::nullopt)}, process,
        kFirstRank + number,
        fmt::format(R"("pid":{},"generation":{}{}{})", rank.pid, generation_, arguments.empty() ? "" : ",", arguments));
  }
}

TraceEvents::Host& TraceEvents::host(const std::string& name) {
  const auto [found, is_new] = hosts_.try_emplace(name);
  if (is_new) found->second.process = kFirstHost + static_cast<int>(hosts_.size()) - 1;
  return found->second;
}

void TraceEvents::add_span(const Span& span, int process, std::int64_t thread, std::string_view arguments) {
  entries_.push_back(fmt::format(R"({{"ph":"X","name":{},"ts":{},"dur":{},"pid":{},"tid":{},"args":{{{}}}}})",
                                 json_quoted(span.name), span.begin, now_ - span.begin, process, thread, arguments));
}

void TraceEvents::add_instant(std::string_view name, int process, std::int64_t thread, std::string_view arguments) {
  entries_.push_back(fmt::format(R"({{"ph":"i","s":"p","name":{},"ts":{},"pid":{},"tid":{},"args":{{{}}}}})",
                                 json_quoted(name), now_, process, thread, arguments));
}

void TraceEvents::name_thread(int process, std::int64_t thread, std::string_view name) {
  entries_.push_back(fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})", process,
                                 thread, json_quoted(name)));
}

}  // namespace muster::cli::verbs
