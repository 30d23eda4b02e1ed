#include "cli/top/top_areas.h"

#include <algorithm>

namespace muster::cli::inline top {
namespace {

constexpr int kFooter = 1;
constexpr int kRoomForHeadings = 8;  // lines for both tables from which on each has a heading, too

}  // namespace

MainAreas main_areas(int lines, int top, std::int64_t jobs, std::int64_t hosts, TopPane active) {
  const int room = std::max(lines - top - kFooter, 0);
  MainAreas areas;
  if (room < 4) {
    TableArea& only = active == TopPane::kJobs ? areas.jobs : areas.hosts;
    only = {.title = -1, .heading = -1, .first = top, .rows = room};
    return areas;
  }
  const int extra = room >= kRoomForHeadings ? 2 : 1;  // lines of each table that are no rows
  const int rows = room - 2 * extra;
  const auto wanted = [rows](std::int64_t count) { return static_cast<int>(std::clamp<std::int64_t>(count, 1, rows)); };
  const int half = rows / 2;
  const int for_hosts = std::min(wanted(hosts), std::max(half, rows - wanted(jobs)));
  const auto place = [extra](TableArea& area, int first, int count) {
    area = {.title = first, .heading = extra == 2 ? first + 1 : -1, .first = first + extra, .rows = count};
  };
  place(areas.jobs, top, rows - for_hosts);
  place(areas.hosts, top + extra + rows - for_hosts, for_hosts);
  return areas;
}

DetailAreas detail_areas(int lines, int top, std::int64_t head) {
  const int room = std::max(lines - top - kFooter, 0);
  DetailAreas areas;
  areas.head_first = top;
  areas.head_rows = static_cast<int>(std::min<std::int64_t>(head, (room + 1) / 2));
  const int left = room - areas.head_rows;
  const int heading = left >= 2 ? 1 : 0;
  areas.table = {.title = -1,
                 .heading = heading == 1 ? top + areas.head_rows : -1,
                 .first = top + areas.head_rows + heading,
                 .rows = left - heading};
  return areas;
}

}  // namespace muster::cli::top
