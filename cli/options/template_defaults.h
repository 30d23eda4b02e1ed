// hvdrun -t: turns a job template's options into settings for hvdrun. These settings win over configuration files.
// Typed options and MUSTER_ variables win over them. Reads the template's files.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "cli/options/settings.h"
#include "job_templates/plan.h"
#include "job_templates/template.h"

namespace muster::cli::inline options {

// Finds a template by its name or its file. Searches the working directory and $HOME/.config/muster/templates.
base::Result<job_templates::Template> find_template(const std::string& name, const base::Environment& environment);

// Returns the options and variables of a plan as hvdrun's settings. `origin` names the source: "template polaris".
base::Result<std::vector<Setting>> settings_of(const job_templates::LaunchPlan& plan, const std::string& origin);

// Removes the defaults that `typed` makes meaningless. For example, --bind-to of the user removes the template's
// --depth.
std::vector<Setting> without_overruled(std::vector<Setting> defaults, const std::vector<Setting>& typed);

}  // namespace muster::cli::options
