// Rows of hosts on the screen of `muster top`, with bars for their load.
// Thread: any; pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/top/column_table.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline top {

inline constexpr int kNarrowBar = 12;  // cells of a bar in a table
inline constexpr int kWideBar = 24;    // cells of a bar on a line of its own

// Returns the table's lines: its heading, then one for each host. `selected` is an index into `hosts`; -1 for none.
// `remark` returns what else there is to say of a host, "late in job k7 by +12 ms"; it may be empty.
std::vector<StyledLine> host_table_lines(const std::vector<const v1::LauncherHost*>& hosts, int selected,
                                         const std::function<std::string(const std::string& host)>& remark, int width);

// Return a bar, or "-" if the host does not report the value.
ScreenCell cpu_cell(const v1::LauncherHost& host, int cells);
ScreenCell memory_cell(const v1::LauncherHost& host, int cells);
ScreenCell gpu_cell(const v1::LauncherHost& host, int cells);

}  // namespace muster::cli::top
