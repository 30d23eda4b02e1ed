// What has been set, by whom: the values of options from files, environment and command line, in layers of which the
// later ones win. Values are still text; cli/options/setting_reader.h reads them.
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
  std::string label;   // how errors begin: as origin, for files with column and key
};

class Settings {
 public:
  // One source. It replaces what earlier layers say of the same options and of those that its own exclude; options that
  // add up over all sources stay. The error: two of its options exclude each other.
  base::Status add_layer(const std::vector<Setting>& layer);

  // nullptr: nobody has set it. For options that add up: the last one.
  const Setting* find(std::string_view name) const;
  std::vector<const Setting*> all(std::string_view name) const;
  std::span<const Setting> entries() const { return settings_; }

  // Lines for the user about the files that were read, such as keys that were ignored.
  void add_note(std::string note) { notes_.push_back(std::move(note)); }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::vector<Setting> settings_;
  std::vector<std::string> notes_;
};

// The layers that need no file.
std::vector<Setting> settings_of(const CommandLine& line);
// Variables with an empty value count as not set.
std::vector<Setting> settings_of(const base::Environment& environment, const FlagTable& table);

}  // namespace muster::cli::options
