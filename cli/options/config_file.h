// Configuration files: YAML with horovodrun's keys at the top level and ours under `muster:`, named after the options
// with '_' for '-'. A null value leaves the option unset. Unknown keys are errors with file, line and column, and name
// the key that was probably meant. In a file that --config-file names, horovodrun's unknown keys are ignored with a
// note: horovodrun ignores them silently, and its users have such files.
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
// `takes_roles`: a job file, whose `roles` cli/options/role_file.h reads.
// `ignored`: gets a line for each unknown key outside `muster:` that is not ours either; nullptr: such keys are errors.
base::Result<std::vector<Setting>> parse_config(std::string_view content, const std::string& file_name,
                                                const FlagTable& table, bool takes_roles = false,
                                                std::vector<std::string>* ignored = nullptr);

// NOT_FOUND: there is no such file.
base::Result<std::vector<Setting>> read_config_file(const std::string& path, const FlagTable& table,
                                                    bool takes_roles = false,
                                                    std::vector<std::string>* ignored = nullptr);

// The file that the user has named for this run, by --config-file or a variable.
std::optional<std::string> named_config(const CommandLine& line, const base::Environment& environment,
                                        const FlagTable& table);

enum class NamedFile { kSettings, kJob };  // the latter may have roles

// All sources in their order: `system_file`, ~/.config/muster/config.yaml, --config-file (which must exist), MUSTER_*
// variables, command line. `defaults` (of a job template) go between the files and the variables.
base::Result<Settings> gather_settings(const CommandLine& line, const base::Environment& environment,
                                       const std::string& system_file, const FlagTable& table,
                                       const std::vector<Setting>& defaults = {},
                                       NamedFile named_file = NamedFile::kSettings);

}  // namespace muster::cli::options
