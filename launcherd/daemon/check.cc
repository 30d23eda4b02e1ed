#include "launcherd/daemon/check.h"

#include <chrono>

#include <fmt/format.h>

#include "launcherd/service/api_socket.h"
#include "launcherd/service/revoked_certificates.h"
#include "launcherd/service/tls_files.h"
#include "launcherd/store/state_directory.h"
#include "launcherd/web/web_server.h"

namespace muster::launcherd::inline daemon {
namespace {

CheckLine wrong(std::string what, std::string text) {
  return {.what = std::move(what), .text = std::move(text), .is_wrong = true};
}

CheckLine check_hosts(const DaemonOptions& options) {
  int slots = 0;
  int uncounted = 0;
  for (const model::HostSpec& host : options.hosts) {
    slots += host.slots.value_or(0);
    if (!host.slots) ++uncounted;
  }
  const std::size_t count = options.hosts.size();
  std::string text =
      fmt::format("{} {} with {} {}", count, count == 1 ? "host" : "hosts", slots, slots == 1 ? "slot" : "slots");
  if (uncounted > 0) text += fmt::format("; {} without a number get a slot for each GPU", uncounted);
  if (options.accept_agents) text += fmt::format("; more can join at port {}", options.accept_agents->port);
  return {.what = "hosts", .text = std::move(text)};
}

CheckLine check_state(const std::string& path) {
  const auto use = StateDirectory::look(path);
  if (!use.ok()) return wrong("state", use.status().message());
  switch (*use) {
    case StateUse::kMissing:
      return {.what = "state", .text = path + " (launcherd makes it)"};
    case StateUse::kInUse:
      return {.what = "state", .text = path + " (a launcherd uses it now)"};
    case StateUse::kFree:
      break;
  }
  return {.what = "state", .text = path};
}

CheckLine check_tls(const TlsListener& listener, base::WallTime now) {
  const base::Status texts = check_tls_texts(listener.certificate, listener.key, listener.client_ca);
  if (!texts.ok()) return wrong("tcp", fmt::format("{}: {}", listener.address, texts.message()));
  const auto revoked = RevokedCertificates::read(listener.client_crl, listener.client_ca);
  if (!revoked.ok()) return wrong("tcp", fmt::format("--client-crl: {}", revoked.status().message()));
  const auto end = certificate_end(listener.certificate);
  if (!end.ok()) return wrong("tcp", fmt::format("{}: {}", listener.address, end.status().message()));
  const std::string until = base::format_rfc3339(*end);
  if (*end <= now) return wrong("tcp", fmt::format("{}: the certificate has expired at {}", listener.address, until));
  return {.what = "tcp", .text = fmt::format("{}, certificate valid until {}", listener.address, until)};
}

CheckLine check_socket(const DaemonOptions& options) {
  if (options.inherited_socket.valid()) return {.what = "socket", .text = "the one of the service manager"};
  if (options.socket.empty() && options.socket_directories.empty()) return wrong("socket", "no folder for it");
  const std::string path =
      options.socket.empty() ? options.socket_directories.front() + "/launcherd.sock" : options.socket;
  const auto use = ApiSocket::look(path);
  if (!use.ok()) return wrong("socket", use.status().message());
  return {.what = "socket", .text = path + (*use == SocketUse::kInUse ? " (a launcherd listens there now)" : "")};
}

CheckLine check_metrics(const MetricsPort& port) {
  const auto needs_tls = MetricsServer::needs_tls(port.address);
  if (!needs_tls.ok()) return wrong("metrics", "--metrics: " + needs_tls.status().message());
  if (port.certificate.empty()) return {.what = "metrics", .text = "http://" + port.address + "/metrics"};
  const auto tls = HttpTls::make(port.certificate, port.key);
  if (!tls.ok()) return wrong("metrics", "--tls-cert, --tls-key: " + tls.status().message());
  return {.what = "metrics", .text = "https://" + port.address + "/metrics"};
}

}  // namespace

std::vector<CheckLine> check_daemon(const DaemonOptions& options, base::WallTime now) {
  std::vector<CheckLine> lines{check_hosts(options), check_state(options.state_directory)};
  if (options.has_socket) lines.push_back(check_socket(options));
  for (const TlsListener& listener : options.tls) lines.push_back(check_tls(listener, now));
  if (!options.http.empty()) {
    const base::Status address = WebServer::check_address(options.http);
    lines.push_back(address.ok() ? CheckLine{.what = "page", .text = "http://" + options.http}
                                 : wrong("page", "--http: " + address.message()));
  }
  if (!options.metrics.address.empty()) lines.push_back(check_metrics(options.metrics));
  return lines;
}

}  // namespace muster::launcherd::daemon
