// Reads which part of a job's output the user wants: --rank, --since, --tail of `muster logs` and `muster attach`.
// Thread: any; pure.
#pragma once

#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "cli/options/settings.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline verbs {

// Parses "2026-06-20T17:05:53.25Z", the form in which Muster prints UTC times.
base::Result<base::WallTime> parse_time(std::string_view text);
void set_timestamp(base::WallTime time, google::protobuf::Timestamp& into);

// Parses "10m", which means 10 minutes before `now`, or "2026-06-20T17:05:53.25Z".
base::Result<base::WallTime> parse_since(std::string_view text, base::WallTime now);

// Reads the request, but leaves its fields `job` and `follow` unset. INVALID_ARGUMENT names the option.
base::Result<v1::LogsRequest> read_logs_request(const Settings& settings, base::WallTime now);

}  // namespace muster::cli::verbs
