// Reads configuration files in YAML. horovodrun's keys stand at the top level. Muster's keys stand under `muster:` and
// have the names of the options, with '_' for '-'. A null value leaves its option unset.
// Errors: an unknown key is an error with file, line and column, and names the key that the user probably meant. In a
// file named by --config-file, an unknown key outside `muster:` is ignored with a note. The reason: horovodrun ignores
// such keys silently, and its users have such files.
// Example:
//
//   params:
//     fusion_threshold_mb: 32
//   muster:
//     hosts: [n1:4, n2:4]
//     timeout: 2h
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "cli/options/settings.h"

namespace muster::cli::inline options {

inline constexpr std::size_t kMaxConfigBytes = 1u << 20;

// Pure.
// `takes_roles`: the file is a job file; its `roles` are skipped here, and cli/options/role_file.h reads them.
// `ignored` gets a line for each unknown key outside `muster:` that is not the name of a Muster key either.
// nullptr means that such keys are errors.
base::Result<std::vector<Setting>> parse_config(std::string_view content, const std::string& file_name,
                                                const FlagTable& table, bool takes_roles = false,
                                                std::vector<std::string>* ignored = nullptr);

// NOT_FOUND if the file does not exist.
base::Result<std::vector<Setting>> read_config_file(const std::string& path, const FlagTable& table,
                                                    bool takes_roles = false,
                                                    std::vector<std::string>* ignored = nullptr);

// Returns the file that the user named for this run by --config-file or its variable. nullopt if the user named none.
std::optional<std::string> named_config(const CommandLine& line, const base::Environment& environment,
                                        const FlagTable& table);

enum class NamedFile { kSettings, kJob };  // a kJob file may have roles

// The file of one program, beside config.yaml in both folders: launcherd.yaml. It is read after config.yaml of the same
// folder. The file of --config-file may have the same form. An unknown key is an error in all of them.
struct OwnFile {
  std::string_view name;
  const FlagTable* table;  // config_key is the key in this file; each name is also in the table of gather_settings()
};

// Reads all sources in this order: `system_file`, ~/.config/muster/config.yaml, the file of --config-file, MUSTER_*
// variables, command line. Later sources win. `own` adds files, see OwnFile. The file of --config-file must exist; the
// other two need not. `defaults` come from a job template. They rank after the files and before the variables.
base::Result<Settings> gather_settings(const CommandLine& line, const base::Environment& environment,
                                       const std::string& system_file, const FlagTable& table,
                                       const std::vector<Setting>& defaults = {},
                                       NamedFile named_file = NamedFile::kSettings, const OwnFile* own = nullptr);

}  // namespace muster::cli::options
