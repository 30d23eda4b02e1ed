// What a template with its values asks of hvdrun: options, variables of the ranks, and what stands before the command.
// Pure.
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

  // {"--ranks-per-node", "4"}, {"--no-oversubscribe"}.
  std::vector<std::string> words() const;
};

struct LaunchPlan {
  std::vector<LaunchOption> options;
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> prefix;  // words before the command: they tell each rank its role; empty: no roles

  // Of the options those that say which hosts there are and how they are reached.
  std::vector<LaunchOption> reach() const;
  // An option by its name, or kCpuLists.
  void leave_out(std::string_view option);
};

// Parameters without a value leave out what names them. Requires nothing to be complete.
base::Result<LaunchPlan> plan_launch(const Values& values);

// A sentence for where a job runs without its script: which parts of the template only that runs; empty: none.
std::string left_out_note(const Template& job_template);

// Stands for bind-to where it lists CPUs. A template lists those beside its GPUs, as many lists as GPUs: they hold only
// where ranks get GPUs.
inline constexpr std::string_view kCpuLists = "bind-to list:";

// The options of a template that lose their meaning when the user gives `option` himself: "bind-to" -> depth, ….
std::vector<std::string_view> overruled_by(std::string_view option, std::string_view value);

// Whether `left_out`, an element of the above, means this option of a template.
bool means_option(std::string_view left_out, std::string_view name, std::string_view value);

}  // namespace muster::job_templates
