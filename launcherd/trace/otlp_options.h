// Reads where to send traces, and how, from the standard variables of OpenTelemetry
// (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/). Pure.
//
// The values of headers may be secrets. They appear in no message.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/env.h"
#include "model/trace_context.h"

namespace muster::launcherd::inline trace {

struct CollectorUrl {
  bool is_tls = false;
  std::string host{};  // a name or an address, without brackets
  int port = 0;
  std::string path{};  // with its query; begins with '/'; empty for gRPC

  // Returns the URL without its query, which may have secrets.
  std::string shown() const;
};

// Which traces are recorded.
enum class Sampler { kAlwaysOn, kAlwaysOff, kRatio };

struct TraceSampling {
  Sampler sampler = Sampler::kAlwaysOn;
  double ratio = 1;            // of the traces, for kRatio
  bool follows_parent = true;  // a trace with a parent is recorded if the parent is

  // `parent` is the context to which the job belongs; `job` is that of the job.
  bool is_sampled(const std::optional<model::TraceContext>& parent, const model::TraceContext& job) const;
};

struct OtlpOptions {
  CollectorUrl url{};
  bool is_grpc = false;  // else HTTP
  std::vector<std::pair<std::string, std::string>> headers{};
  std::chrono::milliseconds timeout{10'000};
  std::string certificate{};         // file with authorities; empty means those of the system
  std::string client_certificate{};  // both are files in PEM; empty means none
  std::string client_key{};
  std::string service_name{};
  std::vector<std::pair<std::string, std::string>> resource{};  // further attributes, without service.name
  TraceSampling sampling{};
};

struct OtlpSettings {
  std::optional<OtlpOptions> options{};  // nullopt if no traces are sent
  std::vector<std::string> warnings{};   // each names its variable
};

// Traces are sent if an endpoint is set, or OTEL_TRACES_EXPORTER is otlp. A wrong value never stops a job: the warning
// says what happens instead. `program` is the service's name, if the environment has none.
OtlpSettings read_otlp(const base::Environment& environment, std::string_view program);

}  // namespace muster::launcherd::trace
