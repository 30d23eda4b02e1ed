// hvdrun -t: what a job template says of hvdrun's options, as settings that go before files and behind all that is
// typed or in MUSTER_ variables. Reads the template's files.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "cli/options/settings.h"
#include "job_templates/plan.h"
#include "job_templates/template.h"

namespace muster::cli::inline options {

// By its name or file, from the working directory and $HOME/.config/muster/templates.
base::Result<job_templates::Template> find_template(const std::string& name, const base::Environment& environment);

// The options and variables of a plan as hvdrun's settings; `origin` is who says so: "template polaris".
base::Result<std::vector<Setting>> settings_of(const job_templates::LaunchPlan& plan, const std::string& origin);

// Without those that `typed` makes meaningless: a --bind-to of the user's own takes the template's --depth away.
std::vector<Setting> without_overruled(std::vector<Setting> defaults, const std::vector<Setting>& typed);

}  // namespace muster::cli::options
