// A finished span, as the exporter sends it. A plain value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcherd/trace/job_spans.h"
#include "model/trace_context.h"

namespace muster::launcherd::inline trace {

struct SpanEvent {
  std::string name{};
  std::int64_t time = 0;  // µs since 1970
  SpanAttributes attributes{};
};

struct TraceSpan {
  model::TraceContext context{};
  std::optional<std::array<std::uint8_t, 8>> parent{};  // span id; nullopt for the first span of a trace
  std::string name{};
  std::int64_t begin = 0;  // µs since 1970
  std::int64_t end = 0;
  SpanAttributes attributes{};
  std::vector<SpanEvent> events{};
  std::size_t dropped_events = 0;
  std::string error{};  // the span has failed if it is not empty
};

}  // namespace muster::launcherd::trace
