#include "launcherd/trace/otlp_message.h"

#include <algorithm>
#include <variant>

#include "base/shortened.h"
#include "base/strings.h"
#include "proto/wire/otlp.pb.h"

namespace muster::launcherd::inline trace {
namespace {

using KeyValues = google::protobuf::RepeatedPtrField<otlp::KeyValue>;

std::string bounded(std::string_view text) {
  return base::shortened(base::valid_utf8(text), kLongestAttribute);
}

void add_attribute(std::string_view name, const AttributeValue& value, KeyValues& to) {
  otlp::KeyValue& pair = *to.Add();
  pair.set_key(bounded(name));
  if (const auto* const number = std::get_if<std::int64_t>(&value)) {
    pair.mutable_value()->set_int_value(*number);
  } else if (const auto* const flag = std::get_if<bool>(&value)) {
    pair.mutable_value()->set_bool_value(*flag);
  } else {
    pair.mutable_value()->set_string_value(bounded(std::get<std::string>(value)));
  }
}

void add_attributes(const SpanAttributes& attributes, KeyValues& to) {
  for (const auto& [name, value] : attributes) add_attribute(name, value, to);
}

std::uint64_t nanoseconds(std::int64_t microseconds) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(microseconds, 0)) * 1000;
}

void set_span(const TraceSpan& from, otlp::Span& to) {
  const model::TraceContext& context = from.context;
  to.set_trace_id(context.trace_id.data(), context.trace_id.size());
  to.set_span_id(context.span_id.data(), context.span_id.size());
  if (from.parent) to.set_parent_span_id(from.parent->data(), from.parent->size());
  to.set_trace_state(context.state);
  to.set_flags(context.is_sampled ? 1 : 0);
  to.set_name(bounded(from.name));
  to.set_kind(otlp::Span::SPAN_KIND_INTERNAL);
  to.set_start_time_unix_nano(nanoseconds(from.begin));
  to.set_end_time_unix_nano(nanoseconds(std::max(from.begin, from.end)));
  add_attributes(from.attributes, *to.mutable_attributes());
  for (const SpanEvent& event : from.events) {
    otlp::Span::Event& added = *to.add_events();
    added.set_name(bounded(event.name));
    added.set_time_unix_nano(nanoseconds(event.time));
    add_attributes(event.attributes, *added.mutable_attributes());
  }
  to.set_dropped_events_count(static_cast<std::uint32_t>(from.dropped_events));
  if (from.error.empty()) return;
  to.mutable_status()->set_code(otlp::Status::STATUS_CODE_ERROR);
  to.mutable_status()->set_message(bounded(from.error));
}

}  // namespace

std::string otlp_request(std::span<const TraceSpan> spans, const OtlpOptions& options, const TraceSource& source) {
  otlp::ExportTraceServiceRequest request;
  otlp::ResourceSpans& all = *request.add_resource_spans();
  KeyValues& resource = *all.mutable_resource()->mutable_attributes();
  add_attribute("service.name", options.service_name, resource);
  const auto is_set = [&](std::string_view name) {
    return std::ranges::any_of(options.resource, [&](const auto& pair) { return pair.first == name; });
  };
  if (!is_set("service.version")) add_attribute("service.version", source.version, resource);
  if (!is_set("host.name")) add_attribute("host.name", source.host, resource);
  for (const auto& [name, value] : options.resource) add_attribute(name, value, resource);
  otlp::ScopeSpans& scope = *all.add_scope_spans();
  scope.mutable_scope()->set_name("muster");
  scope.mutable_scope()->set_version(source.version);
  for (const TraceSpan& span : spans) set_span(span, *scope.add_spans());
  return request.SerializeAsString();
}

base::Result<OtlpAnswer> parse_otlp_answer(std::string_view bytes) {
  otlp::ExportTraceServiceResponse response;
  if (!response.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return base::data_loss("the answer is no ExportTraceServiceResponse");
  }
  return OtlpAnswer{.rejected = response.partial_success().rejected_spans(),
                    .message = base::printable(bounded(response.partial_success().error_message()))};
}

}  // namespace muster::launcherd::trace
