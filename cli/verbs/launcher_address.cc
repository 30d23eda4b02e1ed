#include "cli/verbs/launcher_address.h"

#include "launcherd/service/api_socket.h"

namespace muster::cli::inline verbs {
namespace {

// The value of an option, or else of its variable. Empty if neither is set. `by` names the source, for messages.
struct NamedValue {
  std::string value;
  std::string by;
};
NamedValue named_value(const Settings& settings, std::string_view option, std::string_view name,
                       std::optional<std::string_view> variable) {
  if (const Setting* const setting = settings.find(option)) return {setting->value, setting->label};
  return {std::string(variable.value_or("")), std::string(name)};
}

std::string file_of(const Settings& settings, std::string_view option, std::optional<std::string_view> variable) {
  return named_value(settings, option, "", variable).value;
}

}  // namespace

base::Result<launcherd::LauncherAddress> named_launcherd(const std::string& address, const std::string& by,
                                                         const Settings& settings,
                                                         const base::Environment& environment) {
  auto parsed = launcherd::parse_launcher_address(address);
  if (!parsed.ok()) return parsed.status().with_context(by);
  parsed->tls = {file_of(settings, "tls-cert", environment.get("MUSTER_TLS_CERT")),
                 file_of(settings, "tls-key", environment.get("MUSTER_TLS_KEY")),
                 file_of(settings, "tls-ca", environment.get("MUSTER_TLS_CA"))};
  return launcherd::share_connection(*std::move(parsed));
}

base::Result<std::optional<launcherd::LauncherAddress>> find_launcherd(const Settings& settings,
                                                                       const base::Environment& environment) {
  using Found = std::optional<launcherd::LauncherAddress>;
  const NamedValue named = named_value(settings, "launcher", "MUSTER_LAUNCHER", environment.get("MUSTER_LAUNCHER"));
  if (named.value.empty()) {
    const auto path = launcherd::find_daemon(launcherd::api_directories(environment));
    return path ? Found(launcherd::share_connection({.path = *path})) : Found();
  }
  MUSTER_ASSIGN_OR_RETURN(auto address, named_launcherd(named.value, named.by, settings, environment));
  return Found(std::move(address));
}

base::Result<launcherd::LauncherAddress> need_launcherd(const Settings& settings,
                                                        const base::Environment& environment) {
  MUSTER_ASSIGN_OR_RETURN(auto address, find_launcherd(settings, environment));
  if (address) return std::move(*address);
  return base::not_found(
      "no launcherd of yours runs on this host: start one with launcherd --hostfile FILE, or name one "
      "by --launcher ADDR or MUSTER_LAUNCHER");
}

}  // namespace muster::cli::verbs
