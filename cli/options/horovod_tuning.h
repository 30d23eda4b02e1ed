// What horovodrun's tuning options mean: variables that Horovod reads in every rank. Pure. The values are written as
// horovodrun 0.28.1 writes them (runner/common/util/config_parser.py: set_env_from_args).
#pragma once

#include <string>
#include <vector>

#include "cli/options/setting_reader.h"

namespace muster::cli::inline options {

// "NAME=VALUE" for every option that is set, in the order of the options; a mistake ends up in `read`'s status.
// Autotune's own options count only when autotune is on, mark_cycles only with a timeline.
std::vector<std::string> horovod_tuning(SettingReader& read);

}  // namespace muster::cli::options
