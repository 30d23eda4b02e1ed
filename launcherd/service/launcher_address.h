// Where a launcher is asked: "unix:/path", "host:port", "[v6]:port". Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::launcherd::inline service {

// Files in PEM; read when a connection is made. Only for addresses by TCP.
struct TlsFiles {
  std::string certificate;  // the client's, by which launcherd knows its role
  std::string key;
  std::string authority;  // that has signed launcherd's certificate
};

struct LauncherAddress {
  std::string path{};      // of a Unix socket; empty: by TCP
  std::string endpoint{};  // host:port
  TlsFiles tls{};
  bool is_foreground_job = false;  // an hvdrun's own socket: requests need not name the job
};

LauncherAddress foreground_address(const std::string& path);

// INVALID_ARGUMENT says what addresses look like.
base::Result<LauncherAddress> parse_launcher_address(std::string_view text);

// As it is typed.
std::string format_launcher_address(const LauncherAddress& address);

}  // namespace muster::launcherd::service
