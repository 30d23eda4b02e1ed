#include "cli/options/template_defaults.h"

#include <algorithm>

#include "base/strings.h"
#include "cli/options/command_line.h"
#include "cli/options/hvdrun_flags.h"
#include "job_templates/load.h"

namespace muster::cli::inline options {

base::Result<job_templates::Template> find_template(const std::string& name, const base::Environment& environment) {
  return job_templates::load_template(name, job_templates::standard_sources(environment, "."));
}

base::Result<std::vector<Setting>> settings_of(const job_templates::LaunchPlan& plan, const std::string& origin) {
  CommandLine all;
  const auto take = [&](const std::vector<std::string>& words) -> base::Status {
    auto line = split_command_line(words, hvdrun_flags());
    if (!line.ok()) return line.status().with_context(origin);
    all.options.insert(all.options.end(), line->options.begin(), line->options.end());
    return base::ok_status();
  };
  for (const job_templates::LaunchOption& option : plan.options) MUSTER_RETURN_IF_ERROR(take(option.words()));
  for (const auto& [name, value] : plan.environment) {
    MUSTER_RETURN_IF_ERROR(take({"--env", fmt::format("{}={}", name, value)}));
  }
  std::vector<Setting> layer = settings_of(all);
  for (Setting& setting : layer) {
    setting.label = fmt::format("{}: {}", origin, setting.origin);
    setting.origin = origin;
  }
  return layer;
}

std::vector<Setting> without_overruled(std::vector<Setting> defaults, const std::vector<Setting>& typed) {
  for (const Setting& setting : typed) {
    if (setting.flag->repeat == Repeat::kAddsUpOverAll) continue;
    const auto overruled = job_templates::overruled_by(setting.flag->name, setting.value);
    std::erase_if(defaults, [&](const Setting& each) {
      return std::ranges::any_of(overruled, [&](std::string_view option) {
        return job_templates::means_option(option, each.flag->name, each.value);
      });
    });
  }
  return defaults;
}

}  // namespace muster::cli::options
