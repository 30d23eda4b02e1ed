// TRACEPARENT and TRACESTATE, which any program may have set: the answer is a context that can be written and read
// again, or one sentence. Input: a line of TRACEPARENT, then TRACESTATE.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "model/trace_context.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\n'), input.size());
  const auto context = model::parse_trace_context(input.substr(0, end), input.substr(std::min(end + 1, input.size())));
  if (!context.ok()) {
    MUSTER_CHECK(context.status().message().size() < 1024);
    MUSTER_CHECK(context.status().message().find('\n') == std::string::npos);
    return 0;
  }
  const std::string written = model::traceparent(*context);
  MUSTER_CHECK(written.size() == 55);
  MUSTER_CHECK(*model::parse_trace_context(written, context->state) == *context);
  const model::TraceContext job = model::trace_of_job(*context, "k7abcdef", {});
  MUSTER_CHECK(job.trace_id == context->trace_id && model::trace_within(job, input) != job);
  return 0;
}
