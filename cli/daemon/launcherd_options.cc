#include "cli/daemon/launcherd_options.h"

#include <utility>

#include "base/strings.h"
#include "cli/daemon/launcherd_schema.h"
#include "cli/help/completion_script.h"
#include "cli/help/help.h"
#include "cli/help/man_page.h"
#include "cli/options/setting_reader.h"
#include "launcherd/web/metrics_server.h"
#include "launcherd/web/openapi.h"
#include "model/exit_code.h"

namespace muster::cli::inline daemon {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr long kHighestPort = 65'535;

base::Status bad(const Setting& option, std::string_view problem) {
  return base::invalid_argument("{}: {}", option.label, problem);
}

base::Status read_listen(const Setting& option, ParsedLauncherd& parsed) {
  const std::string& value = option.value;
  if (value.starts_with(kUnix)) {
    std::string path = value.substr(kUnix.size());
    if (!path.starts_with('/')) return bad(option, "the path after unix: must begin with /");
    if (!parsed.sockets.empty()) return bad(option, "give one Unix socket only: all your programs can reach it");
    parsed.sockets.push_back(std::move(path));
    return base::ok_status();
  }
  const auto colon = value.rfind(':');
  const auto port =
      colon == std::string::npos ? std::nullopt : base::parse_decimal(value.substr(colon + 1), kHighestPort);
  if (!port || colon == 0) {
    return bad(option, fmt::format("must be unix:PATH or HOST:PORT, not '{}'", base::printable(value)));
  }
  parsed.addresses.push_back(value);
  return base::ok_status();
}

base::Status read_metrics(const Setting& option, ParsedLauncherd& parsed) {
  MUSTER_RETURN_IF_ERROR(launcherd::MetricsServer::needs_tls(option.value).status().with_context(option.label));
  parsed.metrics = option.value;
  return base::ok_status();
}

base::Status read_accept_agents(const Setting& option, ParsedLauncherd& parsed) {
  std::string_view value = option.value;
  launcherd::AcceptAgents accept;
  const auto colon = value.rfind(':');
  if (colon != std::string_view::npos) {
    std::string_view host = value.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    const auto address = base::IpAddress::parse(host);
    if (!address.ok()) return bad(option, address.status().message());
    accept.address = *address;
    value = value.substr(colon + 1);
  }
  const auto port = base::parse_decimal(value, kHighestPort);
  if (!port) return bad(option, fmt::format("must be [ADDRESS:]PORT, not '{}'", base::printable(option.value)));
  accept.port = static_cast<std::uint16_t>(*port);
  parsed.accept_agents = accept;
  return base::ok_status();
}

base::Status read_fair_use(const Setting& option, ParsedLauncherd& parsed) {
  constexpr std::string_view kLabel = "label:";
  const std::string_view value = option.value;
  parsed.fair_use = {.is_on = value != "off"};
  if (value == "off" || value == "user") return base::ok_status();
  if (!value.starts_with(kLabel) || value.size() == kLabel.size()) {
    return bad(option, fmt::format("must be off, user or label:NAME, not '{}'", base::printable(value)));
  }
  parsed.fair_use.label = value.substr(kLabel.size());
  return base::ok_status();
}

base::Status read_own(const Settings& settings, ParsedLauncherd& parsed) {
  SettingReader read(settings);
  read.custom("listen", [&](const Setting& setting) { return read_listen(setting, parsed); });
  read.text("tls-cert", parsed.tls_certificate);
  read.text("tls-key", parsed.tls_key);
  read.text("client-ca", parsed.client_ca);
  read.text("client-crl", parsed.client_crl);
  read.text("state", parsed.state);
  read.text("http", parsed.http);
  read.toggle("http-write", parsed.http_write);
  read.custom("metrics", [&](const Setting& setting) { return read_metrics(setting, parsed); });
  read.custom("accept-agents", [&](const Setting& setting) { return read_accept_agents(setting, parsed); });
  read.text("join-file", parsed.join_file);
  read.custom("fair-use", [&](const Setting& setting) { return read_fair_use(setting, parsed); });
  read.toggle("i-know-jobs-run-as-root", parsed.is_root_accepted);
  parsed.settings.assign(settings.entries().begin(), settings.entries().end());
  return read.status();
}

// Reads options that only the command line can set. Returns false if this is none of them.
base::Result<bool> take(const ParsedOption& option, ParsedLauncherd& parsed) {
  if (option.flag->name != "check") return false;
  parsed.is_check = true;
  return true;
}

// Returns the answer to --version, --man, --schema, --openapi and --completion SHELL.
std::string answer_text(const ParsedOption& option, std::string_view build_id) {
  if (option.flag->name == "version") return version_text("launcherd", build_id);
  if (option.flag->name == "man") return man_page(launcherd_doc());
  if (option.flag->name == "schema") return launcherd_schema();
  if (option.flag->name == "openapi") return launcherd::openapi_document();
  return completion_script(option.value, "launcherd").value_or("");
}

bool needs_tls(const std::string& metrics) {
  const auto needs = launcherd::MetricsServer::needs_tls(metrics);
  return needs.ok() && *needs;
}

// Checks that options which need each other are given together.
base::Status check(const ParsedLauncherd& parsed, bool is_root) {
  const bool has_all = !parsed.tls_certificate.empty() && !parsed.tls_key.empty() && !parsed.client_ca.empty();
  const bool has_any = !parsed.tls_certificate.empty() || !parsed.tls_key.empty() || !parsed.client_ca.empty();
  if (!parsed.addresses.empty() && !has_all) {
    return base::invalid_argument(
        "--listen {} needs --tls-cert, --tls-key and --client-ca: clients by TCP must have a "
        "certificate (docs/operations.md)",
        parsed.addresses.front());
  }
  const bool is_for_metrics = !parsed.metrics.empty() && parsed.client_ca.empty();
  if (parsed.addresses.empty() && has_any && !is_for_metrics) {
    return base::invalid_argument("--tls-cert, --tls-key and --client-ca need --listen HOST:PORT");
  }
  if (parsed.tls_certificate.empty() != parsed.tls_key.empty()) {
    return base::invalid_argument("--tls-cert and --tls-key belong together");
  }
  if (parsed.tls_key.empty() && needs_tls(parsed.metrics)) {
    return base::invalid_argument("--metrics {} needs --tls-cert and --tls-key: other machines get metrics by TLS only",
                                  parsed.metrics);
  }
  if (parsed.addresses.empty() && !parsed.client_crl.empty()) {
    return base::invalid_argument("--client-crl needs --listen HOST:PORT");
  }
  if (parsed.http_write && parsed.http.empty()) return base::invalid_argument("--http-write needs --http ADDR");
  if (!parsed.join_file.empty() && !parsed.accept_agents) {
    return base::invalid_argument("--join-file needs --accept-agents");
  }
  if (!parsed.addresses.empty() && is_root && !parsed.is_root_accepted) {
    return base::invalid_argument(
        "launcherd runs as root, so jobs submitted by TCP would run as root: start it as another user, "
        "or add --i-know-jobs-run-as-root");
  }
  return base::ok_status();
}

}  // namespace

ParsedLauncherd parse_launcherd(const std::vector<std::string>& arguments, const base::Environment& environment,
                                const ParseContext& context, bool is_root) {
  ParsedLauncherd parsed;
  const OwnFile own{.name = kLauncherdFile, .table = &launcherd_file_flags()};
  const HostVerb verb{
      .doc = launcherd_doc(),
      .take = [&parsed](const ParsedOption& option) { return take(option, parsed); },
      .advice =
          [](const std::vector<std::string>&) {
            return std::string("name hosts by -H or --hostfile; submit jobs by muster submit");
          },
      .settable = &launcherd_settable_flags(),
      .own_file = &own,
      .read = [&parsed](const Settings& settings) { return read_own(settings, parsed); },
      .answer = [&context](const ParsedOption& option) { return answer_text(option, context.build_id); }};
  static_cast<HostVerbLine&>(parsed) = read_host_verb(verb, arguments, environment, context);
  if (parsed.exit_code) return parsed;
  if (const base::Status wrong = check(parsed, is_root); !wrong.ok()) {
    parsed.exit_code = model::kUsageError;
    parsed.text = fmt::format("launcherd: {}\n", wrong.message());
  }
  return parsed;
}

}  // namespace muster::cli::daemon
