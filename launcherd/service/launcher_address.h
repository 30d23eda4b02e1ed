// The address of a launcher: "unix:/path", "host:port" or "[v6]:port". Pure.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::launcherd::inline service {

// Names of PEM files, which are read for each connection. Only for TCP addresses.
struct TlsFiles {
  std::string certificate;  // the client's certificate; launcherd reads the client's role from it
  std::string key;
  std::string authority;  // the authority that signed launcherd's certificate
};

class ApiConnection;

struct LauncherAddress {
  std::string path{};      // path of a Unix socket; empty means TCP
  std::string endpoint{};  // host:port
  TlsFiles tls{};
  bool is_foreground_job = false;  // true for the socket of one hvdrun, where requests need not name the job
  std::shared_ptr<ApiConnection> connection{};  // which the clients of this address share; null: each opens its own
};

// Returns the address, whose copies share one connection. It is opened by the first call.
LauncherAddress share_connection(LauncherAddress address);

LauncherAddress foreground_address(const std::string& path);

// INVALID_ARGUMENT: `text` is not an address. The message describes valid addresses.
base::Result<LauncherAddress> parse_launcher_address(std::string_view text);

// Returns the address as a user types it.
std::string format_launcher_address(const LauncherAddress& address);

}  // namespace muster::launcherd::service
