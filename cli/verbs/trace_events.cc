// Read TraceEvents::finish first.
#include "cli/verbs/trace_events.h"

#include <variant>

#include <fmt/format.h>

#include "base/json.h"

namespace muster::cli::inline verbs {
namespace {

using base::json_quoted;

// Numbers of processes and threads in the trace. Perfetto wants numbers of threads that are unique in all processes.
constexpr int kLauncher = 1;
constexpr int kFirstHost = 2;
constexpr std::int64_t kFirstRank = 1'000'000;

std::string json_of(const launcherd::AttributeValue& value) {
  if (const auto* const number = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *number);
  if (const auto* const flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return json_quoted(std::get<std::string>(value));
}

// Returns the members of a JSON object.
std::string members_of(const launcherd::SpanAttributes& attributes) {
  std::string members;
  for (const auto& [name, value] : attributes) {
    members += fmt::format("{}{}:{}", members.empty() ? "" : ",", json_quoted(name), json_of(value));
  }
  return members;
}

}  // namespace

std::string TraceEvents::finish(const v1::Job& job) {
  spans_.finish();
  for (const std::string& host : spans_.hosts()) {
    processes_.try_emplace(host, kFirstHost + static_cast<int>(processes_.size()));
  }
  name_process(kLauncher, "launcher: job " + (job.name().empty() ? job.id() : job.id() + " " + job.name()));
  name_thread(kLauncher, kLauncher, "job");
  for (const auto& [host, process] : processes_) {
    name_process(process, host);
    name_thread(process, process, "host");
  }
  for (const launcherd::JobSpan& span : spans_.take_spans()) add_span(span);
  for (const launcherd::JobInstant& instant : spans_.take_instants()) add_instant(instant);
  return fmt::format(
      "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"job\":{},\"began_us\":{}}},\"traceEvents\":[\n{}\n]}}\n",
      json_quoted(job.id()), spans_.first(), fmt::join(entries_, ",\n"));
}

int TraceEvents::process_of(const std::string& host) const {
  const auto found = processes_.find(host);
  return found == processes_.end() ? kLauncher : found->second;
}

void TraceEvents::add_span(const launcherd::JobSpan& span) {
  const int process = process_of(span.host);
  const std::int64_t thread = span.rank < 0 ? process : kFirstRank + span.rank;
  if (span.rank >= 0) name_thread(process, thread, span.name);
  entries_.push_back(fmt::format(R"({{"ph":"X","name":{},"ts":{},"dur":{},"pid":{},"tid":{},"args":{{{}}}}})",
                                 json_quoted(span.name), span.begin - spans_.first(), span.end - span.begin, process,
                                 thread, members_of(span.attributes)));
}

void TraceEvents::add_instant(const launcherd::JobInstant& instant) {
  const int process = process_of(instant.host);
  entries_.push_back(fmt::format(R"({{"ph":"i","s":"p","name":{},"ts":{},"pid":{},"tid":{},"args":{{{}}}}})",
                                 json_quoted(instant.name), instant.time - spans_.first(), process, process,
                                 members_of(instant.attributes)));
}

void TraceEvents::name_process(int process, std::string_view name) {
  entries_.push_back(
      fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", process, json_quoted(name)));
  entries_.push_back(
      fmt::format(R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}})", process));
}

void TraceEvents::name_thread(int process, std::int64_t thread, std::string_view name) {
  entries_.push_back(fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})", process,
                                 thread, json_quoted(name)));
}

}  // namespace muster::cli::verbs
