// Requests of OpenTelemetry's protocol as bytes (proto/wire/otlp.proto). Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "launcherd/trace/otlp_options.h"
#include "launcherd/trace/trace_span.h"

namespace muster::launcherd::inline trace {

// Longer texts of attributes and errors are cut between characters.
inline constexpr std::size_t kLongestAttribute = 1024;

// The process that sends spans.
struct TraceSource {
  std::string host{};     // its host's name
  std::string version{};  // of Muster
};

// Returns an ExportTraceServiceRequest.
std::string otlp_request(std::span<const TraceSpan> spans, const OtlpOptions& options, const TraceSource& source);

// The collector's answer to a request that it has accepted.
struct OtlpAnswer {
  std::int64_t rejected = 0;  // spans
  std::string message{};      // why, for people; may be empty
};

// DATA_LOSS if `bytes` is no ExportTraceServiceResponse.
base::Result<OtlpAnswer> parse_otlp_answer(std::string_view bytes);

}  // namespace muster::launcherd::trace
