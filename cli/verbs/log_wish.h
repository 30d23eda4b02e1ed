// What of a job's output is wanted: --rank, --since, --tail of `muster logs` and `muster attach`. Pure.
#pragma once

#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "cli/options/settings.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline verbs {

// "2026-06-20T17:05:53.25Z": UTC, as we print it.
base::Result<base::WallTime> parse_time(std::string_view text);
void set_timestamp(base::WallTime time, google::protobuf::Timestamp& into);

// "10m" before `now`, or "2026-06-20T17:05:53.25Z".
base::Result<base::WallTime> parse_since(std::string_view text, base::WallTime now);

// Without the job and whether to follow it. INVALID_ARGUMENT names the option.
base::Result<v1::LogsRequest> read_log_wish(const Settings& settings, base::WallTime now);

}  // namespace muster::cli::verbs
