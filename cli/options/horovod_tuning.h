// Translates horovodrun's tuning options into the variables that Horovod reads in every rank. The values have the form
// that horovodrun 0.28.1 writes (runner/common/util/config_parser.py: set_env_from_args).
// Thread: any; pure.
#pragma once

#include <string>
#include <vector>

#include "cli/options/setting_reader.h"

namespace muster::cli::inline options {

// Returns "NAME=VALUE" for every option that is set, in the order of the options. A mistake ends up in `read`'s status.
// Autotune's own options count only if autotune is on. mark_cycles counts only with a timeline.
std::vector<std::string> horovod_tuning(SettingReader& read);

}  // namespace muster::cli::options
