#include "launcherd/trace/otlp_options.h"

#include <gtest/gtest.h>

namespace muster::launcherd::otlp_options_test {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

OtlpSettings read(const Variables& variables) {
  base::Environment environment;
  for (const auto& [name, value] : variables) environment.set(name, value);
  return read_otlp(environment, "hvdrun");
}

// Returns the only warning; empty if there is none.
std::string warning(const Variables& variables) {
  const auto warnings = read(variables).warnings;
  EXPECT_LE(warnings.size(), 1U);
  return warnings.empty() ? "" : warnings.front();
}

std::string url(const Variables& variables) {
  const auto options = read(variables).options;
  return options ? options->url.shown() : "none";
}

constexpr const char* kEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT";
constexpr const char* kOwnEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";

TEST(OtlpOptions, WithoutAnEndpointNothingIsSent) {
  EXPECT_EQ(url({}), "none");
  EXPECT_EQ(url({{kEndpoint, ""}}), "none");
  EXPECT_EQ(url({{"OTEL_SERVICE_NAME", "train"}}), "none");
  EXPECT_TRUE(read({}).warnings.empty());
}

TEST(OtlpOptions, TheSignalHasItsPath) {
  EXPECT_EQ(url({{kEndpoint, "http://c:4318"}}), "http://c:4318/v1/traces");
  EXPECT_EQ(url({{kEndpoint, "http://c:4318/"}}), "http://c:4318/v1/traces");
  EXPECT_EQ(url({{kEndpoint, "https://c/otlp/"}}), "https://c:443/otlp/v1/traces");
  EXPECT_EQ(url({{kEndpoint, "HTTP://[::1]:4318"}}), "http://[::1]:4318/v1/traces");
  EXPECT_EQ(url({{kEndpoint, "http://c"}, {kOwnEndpoint, "http://d:1"}}), "http://d:1/");
  EXPECT_EQ(url({{kOwnEndpoint, "http://d:1/in"}}), "http://d:1/in");
  EXPECT_EQ(url({{"OTEL_TRACES_EXPORTER", "otlp"}}), "http://localhost:4318/v1/traces");
  EXPECT_EQ(read({{kEndpoint, "http://c/?key=secret"}}).options->url.path, "/v1/traces?key=secret");
  EXPECT_EQ(url({{kEndpoint, "http://c/?key=secret"}}), "http://c:80/v1/traces");
}

TEST(OtlpOptions, GrpcHasNoPath) {
  const auto shown = [](const Variables& more) {
    Variables all = {{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}};
    all.insert(all.end(), more.begin(), more.end());
    EXPECT_TRUE(read(all).options->is_grpc);
    return url(all);
  };
  EXPECT_EQ(shown({{kEndpoint, "http://c:4317"}}), "http://c:4317");
  EXPECT_EQ(shown({{kOwnEndpoint, "https://c/x"}}), "https://c:443");
  EXPECT_EQ(shown({{"OTEL_TRACES_EXPORTER", "otlp"}}), "http://localhost:4317");
  EXPECT_FALSE(read({{kEndpoint, "http://c"}, {"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"}}).options->is_grpc);
}

TEST(OtlpOptions, TracesCanBeTurnedOff) {
  EXPECT_EQ(url({{kEndpoint, "http://c"}, {"OTEL_TRACES_EXPORTER", "none"}}), "none");
  EXPECT_EQ(url({{kEndpoint, "http://c"}, {"OTEL_SDK_DISABLED", "TRUE"}}), "none");
  EXPECT_EQ(url({{kEndpoint, "http://c"}, {"OTEL_TRACES_EXPORTER", "console, otlp"}}), "http://c:80/v1/traces");
}

TEST(OtlpOptions, WrongValuesNameTheirVariable) {
  for (const char* const wrong :
       {"c:4318", "ftp://c", "http://", "http://c:0", "http://c:x", "http://[::1", "http://c d"}) {
    EXPECT_EQ(url({{kEndpoint, wrong}}), "none") << wrong;
    EXPECT_TRUE(warning({{kEndpoint, wrong}}).starts_with("OTEL_EXPORTER_OTLP_ENDPOINT: ")) << wrong;
    EXPECT_TRUE(warning({{kOwnEndpoint, wrong}}).starts_with("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: ")) << wrong;
  }
  const Variables json = {{kEndpoint, "http://c"}, {"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"}};
  EXPECT_EQ(url(json), "none");
  EXPECT_TRUE(warning(json).starts_with("OTEL_EXPORTER_OTLP_PROTOCOL=http/json: ")) << warning(json);
  const Variables exporter = {{kEndpoint, "http://c"}, {"OTEL_TRACES_EXPORTER", "zipkin"}};
  EXPECT_EQ(url(exporter), "none");
  EXPECT_TRUE(warning(exporter).starts_with("OTEL_TRACES_EXPORTER=zipkin: "));
}

TEST(OtlpOptions, OtherWrongValuesLeaveTracesOn) {
  for (const char* const name : {"OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_RESOURCE_ATTRIBUTES",
                                 "OTEL_TRACES_SAMPLER", "OTEL_EXPORTER_OTLP_COMPRESSION"}) {
    const Variables wrong = {{kEndpoint, "http://c"}, {name, "wrong"}};
    EXPECT_NE(url(wrong), "none") << name;
    EXPECT_TRUE(warning(wrong).starts_with(name)) << warning(wrong);
  }
}

TEST(OtlpOptions, PasswordsAreInNoMessage) {
  EXPECT_EQ(warning({{kEndpoint, "http://ann:secret@c"}}).find("secret"), std::string::npos);
  EXPECT_EQ(warning({{kEndpoint, "http://c"}, {"OTEL_EXPORTER_OTLP_HEADERS", "secret"}}).find("secret"),
            std::string::npos);
}

TEST(OtlpOptions, HeadersAreDecoded) {
  const auto options =
      read({{kEndpoint, "http://c"}, {"OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x,  b = 1=2 ,"}}).options;
  EXPECT_EQ(options->headers, (Variables{{"authorization", "Bearer x"}, {"b", "1=2"}}));
  const auto own = read({{kEndpoint, "http://c"},
                         {"OTEL_EXPORTER_OTLP_HEADERS", "a=1"},
                         {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "b=2"}})
                       .options;
  EXPECT_EQ(own->headers, (Variables{{"b", "2"}}));
}

TEST(OtlpOptions, HeadersCannotAddLines) {
  for (const char* const wrong : {"a=x%0d%0ab: c", "a b=1", "=1", "a=%zz", "a=%4"}) {
    const auto settings = read({{kEndpoint, "http://c"}, {"OTEL_EXPORTER_OTLP_HEADERS", wrong}});
    EXPECT_TRUE(settings.options->headers.empty()) << wrong;
    EXPECT_EQ(settings.warnings.size(), 1U) << wrong;
  }
}

TEST(OtlpOptions, TheServiceHasAName) {
  EXPECT_EQ(read({{kEndpoint, "http://c"}}).options->service_name, "hvdrun");
  const Variables both = {{kEndpoint, "http://c"}, {"OTEL_RESOURCE_ATTRIBUTES", "service.name=a,team=x%2Cy"}};
  EXPECT_EQ(read(both).options->service_name, "a");
  EXPECT_EQ(read(both).options->resource, (Variables{{"team", "x,y"}}));
  EXPECT_EQ(read({{kEndpoint, "http://c"}, {"OTEL_SERVICE_NAME", "b"}}).options->service_name, "b");
}

TEST(OtlpOptions, TimesAreMilliseconds) {
  EXPECT_EQ(read({{kEndpoint, "http://c"}}).options->timeout, std::chrono::seconds(10));
  EXPECT_EQ(read({{kEndpoint, "http://c"}, {"OTEL_EXPORTER_OTLP_TIMEOUT", "250"}}).options->timeout,
            std::chrono::milliseconds(250));
}

TEST(OtlpOptions, SamplersDecideByParentAndTraceId) {
  const auto sampling = [](const char* name, const char* argument) {
    return read({{kEndpoint, "http://c"}, {"OTEL_TRACES_SAMPLER", name}, {"OTEL_TRACES_SAMPLER_ARG", argument}})
        .options->sampling;
  };
  model::TraceContext low;
  model::TraceContext high;
  high.trace_id.fill(0xff);
  model::TraceContext unsampled;
  unsampled.is_sampled = false;
  EXPECT_TRUE(read({{kEndpoint, "http://c"}}).options->sampling.is_sampled({}, low));
  EXPECT_FALSE(read({{kEndpoint, "http://c"}}).options->sampling.is_sampled(unsampled, low));
  EXPECT_TRUE(sampling("always_on", "").is_sampled(unsampled, low));
  EXPECT_FALSE(sampling("always_off", "").is_sampled({}, low));
  EXPECT_TRUE(sampling("parentbased_always_off", "").is_sampled(low, low));
  EXPECT_TRUE(sampling("traceidratio", "0.5").is_sampled({}, low));
  EXPECT_FALSE(sampling("traceidratio", "0.5").is_sampled({}, high));
  EXPECT_TRUE(sampling("parentbased_traceidratio", "0").is_sampled(low, low));
  EXPECT_FALSE(sampling("traceidratio", "0").is_sampled({}, low));
  EXPECT_TRUE(
      warning({{kEndpoint, "http://c"}, {"OTEL_TRACES_SAMPLER", "traceidratio"}, {"OTEL_TRACES_SAMPLER_ARG", "2"}})
          .starts_with("OTEL_TRACES_SAMPLER_ARG=2: "));
}

}  // namespace
}  // namespace muster::launcherd::otlp_options_test
