// The options on a job's place in the queue that submit and update share: --priority, --deadline, --after, --array.
// Pure. Errors begin with the origin of the value.
#pragma once

#include "base/clock.h"
#include "base/status.h"
#include "cli/help/flag_row.h"
#include "cli/options/settings.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline verbs {

// Reads a whole number.
base::Result<int> read_priority(const Setting& setting);
// Reads a time from now, as 2h, or a time of the day, as 2026-06-20T17:05:53Z.
base::Result<google::protobuf::Timestamp> read_deadline(const Setting& setting, base::WallTime now);
// The result names the job as the user does.
base::Result<v1::JobDependency> read_after(const Setting& setting);
base::Result<v1::ArraySpec> read_array(const Setting& setting);

FlagRow priority_row(std::string_view help);
FlagRow deadline_row(std::string_view help);
FlagRow after_row(std::string_view help);

}  // namespace muster::cli::verbs
