// Writes times for people: in the zone of this terminal (TZ), with the zone's distance from UTC. Messages in JSON have
// UTC instead.
// Thread: any. Reads TZ.
#pragma once

#include <string>

#include "base/clock.h"

namespace muster::cli::inline view {

// Returns "2026-06-20 19:02:11 +0200".
std::string format_local_time(base::WallTime time);
// Returns "2026-06-20 19:02:11.123456 +0200".
std::string format_local_micros(base::WallTime time);
// Returns "19:02:11", and "+0200".
std::string format_local_clock(base::WallTime time);
std::string format_local_zone(base::WallTime time);

}  // namespace muster::cli::view
