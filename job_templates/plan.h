// Turns a template with its values into what hvdrun must do: options, variables of the ranks, and words before the
// command. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "job_templates/parameters.h"

namespace muster::job_templates {

struct LaunchOption {
  std::string name;   // without dashes: "ranks-per-node"
  std::string value;  // switches: "true" or "false"
  bool is_switch = false;
  Place place;

  // Returns the option as words of hvdrun's line: {"--ranks-per-node", "4"}, {"--no-oversubscribe"}.
  std::vector<std::string> words() const;
};

struct LaunchPlan {
  std::vector<LaunchOption> options;
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> prefix;  // words before the command, which give each rank its role; empty without roles

  // Returns the options that choose the hosts and the way to reach them.
  std::vector<LaunchOption> reach() const;
  // Removes an option by its name, or kCpuLists.
  void leave_out(std::string_view option);
};

// Makes the plan. It leaves out each option or variable that names a parameter without a value.
base::Result<LaunchPlan> plan_launch(const Values& values);

// Returns a sentence that names the parts of the template which take effect only in its script. Show it if the job runs
// without the script. Empty if there are no such parts.
std::string left_out_note(const Template& job_template);

// Stands for a bind-to that lists CPUs. A template has one list per GPU, so the lists hold only if ranks get GPUs.
inline constexpr std::string_view kCpuLists = "bind-to list:";

// Returns the options of a template that lose their meaning if the user gives `option`: "bind-to" -> depth, ….
std::vector<std::string_view> overruled_by(std::string_view option, std::string_view value);

// Returns whether `left_out`, an element of overruled_by(), means this option of a template.
bool means_option(std::string_view left_out, std::string_view name, std::string_view value);

}  // namespace muster::job_templates
