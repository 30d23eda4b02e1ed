// Read read_otlp() at the end first, then the functions of Reader in its order.
#include "launcherd/trace/otlp_options.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include <fmt/format.h>

#include "base/percent.h"
#include "base/status.h"
#include "base/strings.h"

namespace muster::launcherd::inline trace {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

constexpr std::string_view kDefaultEndpoint = "http://localhost:4318";
constexpr std::string_view kDefaultGrpcEndpoint = "http://localhost:4317";
constexpr std::string_view kSignalPath = "/v1/traces";
constexpr std::size_t kMostPairs = 64;
constexpr long kLongestTimeout = 3'600'000;  // ms

// Parses "a=1,b=2". nullopt if an entry has no name or no '=', or the list is too long.
std::optional<Pairs> parse_pairs(std::string_view text) {
  Pairs pairs;
  for (const std::string_view entry : base::split(text, ',')) {
    if (base::trim(entry).empty()) continue;
    const auto equals = entry.find('=');
    if (equals == std::string_view::npos || pairs.size() == kMostPairs) return std::nullopt;
    const std::string name(base::trim(entry.substr(0, equals)));
    auto value = base::decode_percent(base::trim(entry.substr(equals + 1)));
    if (name.empty() || !value) return std::nullopt;
    pairs.emplace_back(name, *std::move(value));
  }
  return pairs;
}

bool is_header_name(std::string_view name) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return std::ranges::all_of(name, [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

// Without this check a value could add lines to the request.
bool is_header_value(std::string_view value) {
  return std::ranges::all_of(value, [](char c) { return c == '\t' || (c >= ' ' && c != 0x7f) || (c & 0x80) != 0; });
}

// INVALID_ARGUMENT; the message does not show the URL, which may have a password.
base::Result<CollectorUrl> parse_url(std::string_view text) {
  CollectorUrl url;
  if (base::lower(text.substr(0, 8)) == "https://") {
    url.is_tls = true;
    text.remove_prefix(8);
  } else if (base::lower(text.substr(0, 7)) == "http://") {
    text.remove_prefix(7);
  } else {
    return base::invalid_argument("it must begin with http:// or https://");
  }
  if (std::ranges::any_of(text, [](char c) { return c <= ' ' || c > '~'; })) {
    return base::invalid_argument("it has a blank or a character that is not ASCII");
  }
  const auto slash = std::min(text.find_first_of("/?"), text.size());
  std::string_view authority = text.substr(0, slash);
  url.path = text.substr(slash);
  if (authority.find('@') != std::string_view::npos) {
    return base::invalid_argument("it has a user name; use OTEL_EXPORTER_OTLP_HEADERS for passwords");
  }
  std::string_view port;
  if (authority.starts_with('[')) {
    const auto end = authority.find(']');
    if (end == std::string_view::npos) return base::invalid_argument("a ']' is missing");
    url.host = authority.substr(1, end - 1);
    port = authority.substr(end + 1);
  } else {
    const auto colon = std::min(authority.find(':'), authority.size());
    url.host = authority.substr(0, colon);
    port = authority.substr(colon);
  }
  if (url.host.empty()) return base::invalid_argument("it has no host");
  const auto number =
      port.empty() ? std::optional<long>(url.is_tls ? 443 : 80) : base::parse_decimal(port.substr(1), 65535);
  if ((!port.empty() && !port.starts_with(':')) || !number || *number == 0) {
    return base::invalid_argument("its port is no number from 1 to 65535");
  }
  url.port = static_cast<int>(*number);
  return url;
}

// Adds the path of traces to the base URL, before a query.
void add_signal_path(CollectorUrl& url) {
  const auto query = std::min(url.path.find('?'), url.path.size());
  std::string path = url.path.substr(0, query);
  while (path.ends_with('/')) path.pop_back();
  url.path = path + std::string(kSignalPath) + url.path.substr(query);
}

// A variable that is set and not empty.
struct Variable {
  std::string_view name{};
  std::string value{};
};

class Reader {
 public:
  Reader(const base::Environment& environment, std::string_view program)
      : environment_(environment), program_(program) {}

  OtlpSettings read();

 private:
  std::optional<Variable> first(std::initializer_list<std::pair<std::string_view, std::optional<std::string_view>>> of);
  bool is_on();
  bool read_url(OtlpOptions& options);
  bool read_protocol(OtlpOptions& options);
  void read_headers(OtlpOptions& options);
  void read_timeout(OtlpOptions& options);
  void read_files(OtlpOptions& options);
  void read_resource(OtlpOptions& options);
  void read_sampler(OtlpOptions& options);
  void warn_of_compression();
  void warn(std::string line) { settings_.warnings.push_back(std::move(line)); }

  const base::Environment& environment_;
  const std::string_view program_;
  OtlpSettings settings_;
};

std::optional<Variable> Reader::first(
    std::initializer_list<std::pair<std::string_view, std::optional<std::string_view>>> of) {
  for (const auto& [name, value] : of) {
    if (value && !base::trim(*value).empty()) return Variable{name, std::string(base::trim(*value))};
  }
  return std::nullopt;
}

bool Reader::is_on() {
  const auto disabled = first({{"OTEL_SDK_DISABLED", environment_.get("OTEL_SDK_DISABLED")}});
  if (disabled && base::lower(disabled->value) == "true") return false;
  const bool has_endpoint = first({{"", environment_.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")},
                                   {"", environment_.get("OTEL_EXPORTER_OTLP_ENDPOINT")}})
                                .has_value();
  const auto exporter = first({{"OTEL_TRACES_EXPORTER", environment_.get("OTEL_TRACES_EXPORTER")}});
  if (!exporter) return has_endpoint;
  const auto names = base::split(exporter->value, ',');
  if (std::ranges::any_of(names, [](std::string_view name) { return base::trim(name) == "otlp"; })) return true;
  if (exporter->value != "none" && has_endpoint) {
    warn(fmt::format("OTEL_TRACES_EXPORTER={}: unknown exporter, so no trace is sent; use one of: otlp, none",
                     base::printable(exporter->value)));
  }
  return false;
}

bool Reader::read_url(OtlpOptions& options) {
  const auto own =
      first({{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", environment_.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")}});
  const auto common = first({{"OTEL_EXPORTER_OTLP_ENDPOINT", environment_.get("OTEL_EXPORTER_OTLP_ENDPOINT")}});
  const Variable used = own      ? *own
                        : common ? *common
                                 : Variable{"OTEL_EXPORTER_OTLP_ENDPOINT",
                                            std::string(options.is_grpc ? kDefaultGrpcEndpoint : kDefaultEndpoint)};
  auto url = parse_url(used.value);
  if (!url.ok()) {
    warn(fmt::format("{}: {}, so no trace is sent", used.name, url.status().message()));
    return false;
  }
  options.url = *std::move(url);
  if (options.is_grpc) {
    options.url.path.clear();
    return true;
  }
  if (!own) add_signal_path(options.url);
  if (!options.url.path.starts_with('/')) options.url.path.insert(0, "/");
  return true;
}

bool Reader::read_protocol(OtlpOptions& options) {
  const auto protocol =
      first({{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", environment_.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")},
             {"OTEL_EXPORTER_OTLP_PROTOCOL", environment_.get("OTEL_EXPORTER_OTLP_PROTOCOL")}});
  options.is_grpc = protocol && protocol->value == "grpc";
  if (!protocol || options.is_grpc || protocol->value == "http/protobuf") return true;
  warn(fmt::format("{}={}: unknown protocol, so no trace is sent; use one of: http/protobuf, grpc", protocol->name,
                   base::printable(protocol->value)));
  return false;
}

void Reader::read_headers(OtlpOptions& options) {
  const auto headers =
      first({{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", environment_.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS")},
             {"OTEL_EXPORTER_OTLP_HEADERS", environment_.get("OTEL_EXPORTER_OTLP_HEADERS")}});
  if (!headers) return;
  const auto pairs = parse_pairs(headers->value);
  const bool is_good = pairs && std::ranges::all_of(*pairs, [](const auto& pair) {
                         return is_header_name(pair.first) && is_header_value(pair.second);
                       });
  if (is_good) {
    options.headers = *pairs;
  } else {
    warn(fmt::format("{}: it is no list such as name=value,name=value, so traces are sent without these headers",
                     headers->name));
  }
}

void Reader::read_timeout(OtlpOptions& options) {
  const auto timeout =
      first({{"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", environment_.get("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT")},
             {"OTEL_EXPORTER_OTLP_TIMEOUT", environment_.get("OTEL_EXPORTER_OTLP_TIMEOUT")}});
  if (!timeout) return;
  const auto number = base::parse_decimal(timeout->value, kLongestTimeout);
  if (number && *number > 0) {
    options.timeout = std::chrono::milliseconds(*number);
  } else {
    warn(fmt::format("{}={}: it is no number of milliseconds from 1 to {}, so it is {}", timeout->name,
                     base::printable(timeout->value), kLongestTimeout, options.timeout.count()));
  }
}

void Reader::read_files(OtlpOptions& options) {
  const auto value = [](const std::optional<Variable>& variable) { return variable ? variable->value : ""; };
  options.certificate = value(first({{"", environment_.get("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE")},
                                     {"", environment_.get("OTEL_EXPORTER_OTLP_CERTIFICATE")}}));
  options.client_certificate = value(first({{"", environment_.get("OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE")},
                                            {"", environment_.get("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE")}}));
  options.client_key = value(first({{"", environment_.get("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY")},
                                    {"", environment_.get("OTEL_EXPORTER_OTLP_CLIENT_KEY")}}));
}

void Reader::read_resource(OtlpOptions& options) {
  options.service_name = program_;
  const auto attributes = first({{"OTEL_RESOURCE_ATTRIBUTES", environment_.get("OTEL_RESOURCE_ATTRIBUTES")}});
  if (attributes) {
    const auto pairs = parse_pairs(attributes->value);
    if (!pairs) {
      warn("OTEL_RESOURCE_ATTRIBUTES: it is no list such as name=value,name=value, so it is ignored");
    } else {
      for (const auto& [name, text] : *pairs) {
        if (name == "service.name") {
          options.service_name = text;
        } else {
          options.resource.emplace_back(name, text);
        }
      }
    }
  }
  const auto name = first({{"OTEL_SERVICE_NAME", environment_.get("OTEL_SERVICE_NAME")}});
  if (name) options.service_name = name->value;
}

void Reader::read_sampler(OtlpOptions& options) {
  const auto sampler = first({{"OTEL_TRACES_SAMPLER", environment_.get("OTEL_TRACES_SAMPLER")}});
  if (!sampler) return;
  std::string_view kind = sampler->value;
  constexpr std::string_view kByParent = "parentbased_";
  TraceSampling sampling{.follows_parent = kind.starts_with(kByParent)};
  if (sampling.follows_parent) kind.remove_prefix(kByParent.size());
  if (kind == "always_off") {
    sampling.sampler = Sampler::kAlwaysOff;
  } else if (kind == "traceidratio") {
    sampling.sampler = Sampler::kRatio;
    const auto argument = first({{"OTEL_TRACES_SAMPLER_ARG", environment_.get("OTEL_TRACES_SAMPLER_ARG")}});
    const std::string_view text = argument ? std::string_view(argument->value) : "1";
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), sampling.ratio);
    if (failed != std::errc() || end != text.data() + text.size() || !(sampling.ratio >= 0 && sampling.ratio <= 1)) {
      warn(fmt::format("OTEL_TRACES_SAMPLER_ARG={}: it is no number from 0 to 1, so it is 1", base::printable(text)));
      sampling.ratio = 1;
    }
  } else if (kind != "always_on") {
    warn(
        fmt::format("OTEL_TRACES_SAMPLER={}: unknown sampler, so it is parentbased_always_on; use one of: always_on, "
                    "always_off, traceidratio, and these with parentbased_",
                    base::printable(sampler->value)));
    return;
  }
  options.sampling = sampling;
}

void Reader::warn_of_compression() {
  const auto compression =
      first({{"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", environment_.get("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION")},
             {"OTEL_EXPORTER_OTLP_COMPRESSION", environment_.get("OTEL_EXPORTER_OTLP_COMPRESSION")}});
  if (!compression || compression->value == "none") return;
  warn(fmt::format("{}={}: Muster sends traces uncompressed", compression->name, base::printable(compression->value)));
}

OtlpSettings Reader::read() {
  if (!is_on()) return std::move(settings_);
  OtlpOptions options;
  if (!read_protocol(options) || !read_url(options)) return std::move(settings_);
  read_headers(options);
  read_timeout(options);
  read_files(options);
  read_resource(options);
  read_sampler(options);
  warn_of_compression();
  settings_.options = std::move(options);
  return std::move(settings_);
}

}  // namespace

std::string CollectorUrl::shown() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}{}", is_tls ? "https" : "http", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port,
                     path.substr(0, path.find('?')));
}

bool TraceSampling::is_sampled(const std::optional<model::TraceContext>& parent, const model::TraceContext& job) const {
  if (follows_parent && parent) return parent->is_sampled;
  if (sampler != Sampler::kRatio) return sampler == Sampler::kAlwaysOn;
  // The standard reads the ratio from the last 7 bytes of the trace id.
  std::uint64_t number = 0;
  for (std::size_t i = 9; i < job.trace_id.size(); ++i) number = number << 8 | job.trace_id[i];
  return static_cast<double>(number) < ratio * static_cast<double>(std::uint64_t{1} << 56);
}

OtlpSettings read_otlp(const base::Environment& environment, std::string_view program) {
  return Reader(environment, program).read();
}

}  // namespace muster::launcherd::trace
