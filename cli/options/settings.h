// Holds the values of options and where each came from. The sources (files, environment, command line) are layers, and
// later layers win. Values are still text; cli/options/setting_reader.h converts them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "cli/help/flags.h"
#include "cli/options/command_line.h"

namespace muster::cli::inline options {

struct Setting {
  const Flag* flag = nullptr;
  std::string value;
  std::string origin;  // "-np", "MUSTER_NUM_PROC", "/etc/muster/config.yaml:3"
  std::string label;   // the text with which errors begin: the origin; for files also column and key
};

class Settings {
 public:
  // Adds the settings of one source. They replace earlier settings of the same options, and of options that exclude
  // these. Options that add up over all sources stay. INVALID_ARGUMENT if two options of `layer` exclude each other.
  base::Status add_layer(const std::vector<Setting>& layer);

  // nullptr if no source has set it. For an option that adds up, returns the last setting.
  const Setting* find(std::string_view name) const;
  std::vector<const Setting*> all(std::string_view name) const;
  std::span<const Setting> entries() const { return settings_; }

  // Notes are lines for the user about the files that were read, such as keys that were ignored.
  void add_note(std::string note) { notes_.push_back(std::move(note)); }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::vector<Setting> settings_;
  std::vector<std::string> notes_;
};

// These return the layers that come from the command line and the environment. They read no file.
std::vector<Setting> settings_of(const CommandLine& line);
// A variable with an empty value counts as not set.
std::vector<Setting> settings_of(const base::Environment& environment, const FlagTable& table);

}  // namespace muster::cli::options
