// Any text as ~/.ssh/config, including itself by any name: it ends, and what it yields can be used.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "launcherd/ssh/ssh_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const muster::launcherd::SshConfigFiles files = {
      .read = [&](const std::string& path) -> std::optional<std::string> {
        return path == "/etc/ssh/ssh_config" ? std::nullopt : std::optional<std::string>(text);
      },
      .glob = [](const std::string& pattern) { return std::vector<std::string>{pattern}; }};
  const auto config = muster::launcherd::read_ssh_config({.host = "n1",
                                                          .user = "",
                                                          .local_user = "me",
                                                          .home = "/home/me",
                                                          .user_file = "/home/me/.ssh/config",
                                                          .system_file = "/etc/ssh/ssh_config"},
                                                         files);
  if (config.host_name.empty() || config.port < 0 || config.port > 65535) std::abort();
  return 0;
}
