// Configuration files: reading ends, mistakes are one sentence with their place, and what --print-config makes of an
// accepted file is an accepted file with the same effect. The same bytes as a job file's roles and as launch.py's
// hosts.
#include <cstdint>
#include <string_view>

#include "cli/foreign/dmlc.h"
#include "cli/options/config_file.h"
#include "cli/options/hvdrun_flags.h"
#include "cli/options/options.h"
#include "cli/options/print_config.h"
#include "cli/options/role_file.h"

namespace {

using muster::cli::hvdrun_flags;

// Every setting but the variables of ranks, which are not printed.
std::string show(const muster::cli::Settings& settings) {
  std::string text;
  for (const muster::cli::Flag& flag : hvdrun_flags().flags()) {
    if (flag.name == "env") continue;
    for (const auto* setting : settings.all(flag.name)) text += fmt::format("{}={}\n", flag.name, setting->value);
    if (settings.all(flag.name).empty() && !flag.standard.empty())
      text += fmt::format("{}={}\n", flag.name, flag.standard);
  }
  return text;
}

void read_roles(std::string_view content) {
  const auto roles = muster::cli::parse_roles(content, "config");
  if (roles.ok()) {
    MUSTER_CHECK(muster::model::check_roles(*roles).ok());
  } else {
    MUSTER_CHECK(roles.status().message().starts_with("config:"));
  }
}

void read_hosts(std::string_view content) {
  const auto hosts = muster::cli::parse_dmlc_hosts(content, "config");
  if (!hosts.ok()) {
    MUSTER_CHECK(hosts.status().message().starts_with("config:"));
    return;
  }
  for (const auto& host : *hosts) MUSTER_CHECK(muster::model::is_host_name(host.name) && host.port >= 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  read_roles(content);
  read_hosts(content);
  const auto layer = muster::cli::parse_config(content, "config", hvdrun_flags());
  if (!layer.ok()) {
    MUSTER_CHECK(layer.status().message().starts_with("config:"));
    MUSTER_CHECK(layer.status().message().find('\n') == std::string::npos);
    return 0;
  }
  muster::cli::Settings settings;
  if (!settings.add_layer(*layer).ok()) return 0;
  const auto options = muster::cli::read_options(settings);
  if (!options.ok()) MUSTER_CHECK(!options.status().message().empty());

  const auto printed =
      muster::cli::parse_config(muster::cli::format_settings(settings, hvdrun_flags()), "printed", hvdrun_flags());
  MUSTER_CHECK(printed.ok());
  muster::cli::Settings again;
  MUSTER_CHECK(again.add_layer(*printed).ok());
  MUSTER_CHECK(show(again) == show(settings));
  return 0;
}
