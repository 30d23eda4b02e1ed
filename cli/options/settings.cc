#include "cli/options/settings.h"

#include <algorithm>

namespace muster::cli::inline options {
namespace {

base::Status check_exclusion(const std::vector<Setting>& layer) {
  for (const Setting& setting : layer) {
    if (setting.flag->exclusive.empty()) continue;
    const auto other = std::ranges::find_if(layer, [&](const Setting& candidate) {
      return candidate.flag->exclusive == setting.flag->exclusive && candidate.flag != setting.flag;
    });
    if (other != layer.end()) {
      return base::invalid_argument("{} and {} exclude each other: give one of them", setting.label, other->label);
    }
  }
  return base::ok_status();
}

bool replaces(const Setting& later, const Setting& earlier) {
  if (later.flag == earlier.flag) return later.flag->repeat != Repeat::kAddsUpOverAll;
  return !later.flag->exclusive.empty() && later.flag->exclusive == earlier.flag->exclusive;
}

}  // namespace

base::Status Settings::add_layer(const std::vector<Setting>& layer) {
  MUSTER_RETURN_IF_ERROR(check_exclusion(layer));
  std::erase_if(settings_, [&](const Setting& earlier) {
    return std::ranges::any_of(layer, [&](const Setting& later) { return replaces(later, earlier); });
  });
  for (const Setting& setting : layer) {
    if (setting.flag->repeat == Repeat::kLastCounts) {
      std::erase_if(settings_, [&](const Setting& earlier) { return earlier.flag == setting.flag; });
    }
    settings_.push_back(setting);
  }
  return base::ok_status();
}

const Setting* Settings::find(std::string_view name) const {
  const auto found = std::find_if(settings_.rbegin(), settings_.rend(),
                                  [&](const Setting& setting) { return setting.flag->name == name; });
  return found == settings_.rend() ? nullptr : &*found;
}

std::vector<const Setting*> Settings::all(std::string_view name) const {
  std::vector<const Setting*> found;
  for (const Setting& setting : settings_) {
    if (setting.flag->name == name) found.push_back(&setting);
  }
  return found;
}

std::vector<Setting> settings_of(const CommandLine& line) {
  std::vector<Setting> layer;
  for (const ParsedOption& option : line.options) {
    layer.push_back({option.flag, option.value, option.spelling, option.spelling});
  }
  return layer;
}

std::vector<Setting> settings_of(const base::Environment& environment, const FlagTable& table) {
  std::vector<Setting> layer;
  for (const Flag& flag : table.flags()) {
    for (const std::string& variable : {flag.variable(), std::string(flag.environment)}) {
      const auto value = variable.empty() ? std::nullopt : environment.get(variable);
      if (!value || value->empty()) continue;
      layer.push_back({&flag, std::string(*value), variable, variable});
      break;  // MUSTER_<NAME> wins over horovodrun's variable
    }
  }
  return layer;
}

}  // namespace muster::cli::options
