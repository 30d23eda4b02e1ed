// Formats the elements of an array as a table of ranges. Pure.
#pragma once

#include <string>
#include <vector>

#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline view {

// Returns "0-99%4: 3 run, 93 wait, 2 succeeded, 2 failed". Without counts it ends before the colon.
std::string describe_array(const v1::ArrayStatus& array);

// Returns a table with one row a range. `is_cut` says that ranges are left out.
std::string format_elements(const std::vector<v1::ElementRange>& ranges, bool is_cut);

}  // namespace muster::cli::view
