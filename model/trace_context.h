// Trace contexts of W3C (https://www.w3.org/TR/trace-context/): the span to which further spans belong. A program of
// OpenTelemetry reads it from TRACEPARENT and TRACESTATE. Pure.
//
// Ids of spans are derived, not random. So a launcherd that starts again goes on in the same trace.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/env.h"
#include "base/status.h"

namespace muster::model {

struct TraceContext {
  std::array<std::uint8_t, 16> trace_id{};
  std::array<std::uint8_t, 8> span_id{};
  bool is_sampled = true;  // false: nobody records the spans of this trace
  std::string state = {};  // TRACESTATE, which we pass on; may be empty

  bool operator==(const TraceContext&) const = default;
};

// Parses TRACEPARENT and TRACESTATE. A wrong `state` is dropped, as the standard says.
// INVALID_ARGUMENT: `parent` is wrong; the message names TRACEPARENT.
base::Result<TraceContext> parse_trace_context(std::string_view parent, std::string_view state);

// Returns text such as "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".
std::string traceparent(const TraceContext& context);

// Returns the context that the environment names. nullopt if it names none. The errors are those of
// parse_trace_context().
base::Result<std::optional<TraceContext>> inherited_trace(const base::Environment& environment);

// Returns the context of a job's span. With a parent the span belongs to the parent's trace, else to a trace of its
// own. The same arguments give the same ids.
TraceContext trace_of_job(const std::optional<TraceContext>& parent, std::string_view job_id, base::WallTime submitted);

// Returns the context of a span within the job's span. `name` must be unique in the job.
TraceContext trace_within(const TraceContext& job, std::string_view name);

// Returns the name for trace_within() of a rank's span.
std::string rank_span_name(int generation, int rank);

// Returns the variables by which a rank's own spans join the job's trace.
std::vector<std::pair<std::string, std::string>> trace_variables(const TraceContext& job, int generation, int rank,
                                                                 const base::Environment& user_set);

}  // namespace muster::model
