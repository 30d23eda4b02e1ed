// Lays out each screen of `muster top`.
// Read frame_of() at the end first, then put_main(), put_job() and put_host().
#include "cli/top/top_frame.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cli/top/cell_text.h"
#include "cli/top/detail_head.h"
#include "cli/top/host_rows.h"
#include "cli/top/job_rows.h"
#include "cli/top/top_help.h"
#include "cli/view/local_time.h"

namespace muster::cli::inline top {
namespace {

using Lines = std::vector<StyledLine>;

void put_line(Lines& lines, int at, StyledLine line) {
  if (at >= 0 && at < std::ssize(lines)) lines[static_cast<std::size_t>(at)] = std::move(line);
}

// Puts a table's heading and rows where `area` says.
void put_table(Lines& lines, const TableArea& area, const Lines& table) {
  if (area.heading >= 0) put_line(lines, area.heading, table.front());
  for (int row = 0; row < area.rows && row + 1 < std::ssize(table); ++row) {
    put_line(lines, area.first + row, table[static_cast<std::size_t>(row) + 1]);
  }
}

struct HeaderPiece {
  int importance;
  StyledText text;
};

// Returns the first line: as many pieces as fit, the least important ones go first.
StyledLine header(const TopState& state) {
  int slots = 0;
  int used = 0;
  for (const v1::LauncherHost& host : state.hosts()) {
    slots += host.slots();
    used += host.used_slots();
  }
  const auto is_ours = [&state](std::int64_t row) {
    const v1::Job* const job = state.job_at(row);
    return row < state.foreground_count() && job != nullptr && !job->has_ended();
  };
  std::int64_t running = state.running();
  for (std::int64_t row = 0; row < state.foreground_count(); ++row) running += is_ours(row) ? 1 : 0;
  std::vector<HeaderPiece> pieces{
      {10, {"muster top", TextStyle::kStrong}},
      {40, {fmt::format("{} running, {} waiting", running, state.waiting()), TextStyle::kStrong}},
      {30, {fmt::format("{}/{} slots on {} hosts", used, slots, state.hosts().size())}},
      {5, {state.launcher().empty() ? std::string("no launcherd") : state.launcher()}},
      {20, {format_local_clock(state.now())}},
      {2, {format_local_zone(state.now())}}};
  constexpr std::string_view kBetween = "  ";
  const auto width = [&] {
    int cells = -static_cast<int>(kBetween.size());
    for (const HeaderPiece& piece : pieces)
      cells += cells_in(harmless(piece.text.text)) + static_cast<int>(kBetween.size());
    return cells;
  };
  while (pieces.size() > 1 && width() > state.columns()) {
    pieces.erase(std::ranges::min_element(pieces, {}, &HeaderPiece::importance));
  }
  StyledLine line;
  for (HeaderPiece& piece : pieces) {
    if (!line.parts.empty()) line.parts.push_back({std::string(kBetween)});
    line.parts.push_back(std::move(piece.text));
  }
  return line;
}

using KeyHint = std::pair<std::string_view, std::string_view>;

StyledLine hints(std::initializer_list<KeyHint> keys) {
  StyledLine line;
  for (const auto& [key, what] : keys) {
    if (!line.parts.empty()) line.parts.push_back({"  "});
    line.parts.push_back({std::string(key), TextStyle::kStrong});
    line.parts.push_back({" " + std::string(what)});
  }
  return line;
}

// Returns the last line: the typed filter, or the keys of this screen.
StyledLine footer(const TopState& state, std::optional<int>& cursor) {
  if (state.has_help()) return hints({{"any key", "closes the help"}});
  if (state.is_typing()) {
    // If the text is too long, its end is shown, and a cell is left for the cursor.
    const std::string text = "/" + end_of(harmless(state.typed()), std::max(state.columns() - 2, 0));
    cursor = cells_in(text);
    return {.parts = {{text, TextStyle::kStrong}, {"   Enter sets the filter, Esc leaves it", TextStyle::kFaint}}};
  }
  if (state.screen() == TopScreen::kMain) {
    return hints({{"?", "help"},
                  {"Tab", "table"},
                  {"Enter", "open"},
                  {"/", "filter"},
                  {"s", "sort"},
                  {"r", "reverse"},
                  {"a", state.list().all ? "open jobs" : "all jobs"},
                  {"q", "quit"}});
  }
  return hints({{"Esc", "back"}, {"?", "help"}, {"q", "quit"}});
}

// Returns "jobs 1-12 of 10000 by state, filter 'x'".
StyledLine pane_title(std::string_view what, const TableArea& area, const ListCursor& cursor, std::int64_t size,
                      std::string_view order, bool is_reversed, const std::string& filter, bool is_active) {
  const std::int64_t last = std::min(cursor.top + area.rows, size);
  std::string text =
      size == 0 ? fmt::format(" no {}", what) : fmt::format(" {} {}-{} of {}", what, cursor.top + 1, last, size);
  text += fmt::format(", by {}{}", order, is_reversed ? ", reversed" : "");
  if (!filter.empty()) text += fmt::format(", filter '{}'", filter);
  const TextStyle style = is_active ? TextStyle::kActive : TextStyle::kTitle;
  return {.parts = {{text, style}}};
}

StyledLine filled(const StyledLine& line, int columns) {
  const StyledText& part = line.parts.front();
  return {.parts = {{padded_to(harmless(part.text), columns), part.style}}};
}

// Returns in which of the shown jobs the host is late: "late in job k7: n3 +12 ms".
std::string late_remark(const TopState& state, const std::string& host) {
  const ListCursor& cursor = state.job_cursor();
  for (std::int64_t row = cursor.top; row < cursor.top + state.areas().jobs.rows; ++row) {
    const v1::Job* const job = state.job_at(row);
    if (job == nullptr) continue;
    if (const std::string late = late_text(*job); late.starts_with(host + " ")) {
      return fmt::format("late in job {}: {}", job->id(), late.substr(host.size() + 1));
    }
  }
  return {};
}

void put_jobs(Lines& lines, const TopState& state, const TableArea& area) {
  const ListCursor& cursor = state.job_cursor();
  const bool is_active = state.pane() == TopPane::kJobs;
  put_line(lines, area.title,
           filled(pane_title(state.list().all ? "jobs (all)" : "jobs", area, cursor, state.job_count(),
                             name_of(state.list().order), state.list().is_reversed, state.list().filter, is_active),
                  state.columns()));
  std::vector<const v1::Job*> jobs;
  for (std::int64_t row = cursor.top; row < std::min(cursor.top + area.rows, state.job_count()); ++row) {
    jobs.push_back(state.job_at(row));
  }
  const int selected = is_active ? static_cast<int>(cursor.at - cursor.top) : -1;
  put_table(lines, area, job_table_lines(jobs, selected, state.now(), state.columns()));
  if (!state.has_answer()) put_line(lines, area.first, {.parts = {{" asking", TextStyle::kFaint}}});
}

void put_hosts(Lines& lines, const TopState& state, const TableArea& area) {
  const ListCursor& cursor = state.host_cursor();
  const bool is_active = state.pane() == TopPane::kHosts;
  const auto count = static_cast<std::int64_t>(state.host_rows().size());
  put_line(lines, area.title,
           filled(pane_title("hosts", area, cursor, count, name_of(state.host_order()), state.are_hosts_reversed(),
                             state.host_filter(), is_active),
                  state.columns()));
  std::vector<const v1::LauncherHost*> hosts;
  for (std::int64_t row = cursor.top; row < std::min(cursor.top + area.rows, count); ++row) {
    hosts.push_back(&state.hosts()[state.host_rows()[static_cast<std::size_t>(row)]]);
  }
  const int selected = is_active ? static_cast<int>(cursor.at - cursor.top) : -1;
  const auto remark = [&state](const std::string& host) { return late_remark(state, host); };
  put_table(lines, area, host_table_lines(hosts, selected, remark, state.columns()));
}

void put_main(Lines& lines, const TopState& state) {
  const MainAreas areas = state.areas();
  if (areas.jobs.rows > 0) put_jobs(lines, state, areas.jobs);
  if (areas.hosts.rows > 0) put_hosts(lines, state, areas.hosts);
}

void put_head(Lines& lines, const DetailAreas& areas, const Lines& head) {
  for (int row = 0; row < areas.head_rows && row < std::ssize(head); ++row) {
    put_line(lines, areas.head_first + row, head[static_cast<std::size_t>(row)]);
  }
}

void put_job(Lines& lines, const TopState& state) {
  const DetailAreas areas = state.detail();
  put_head(lines, areas, job_head(state.job(), state.job_name(), state.job_problem(), state.now()));
  if (state.job() == nullptr) return;
  const ListCursor& cursor = state.rank_cursor();
  std::vector<const v1::RankStatus*> ranks;
  for (std::int64_t row = cursor.top; row < std::min(cursor.top + areas.table.rows, state.rank_count()); ++row) {
    ranks.push_back(state.rank_at(row));
  }
  if (ranks.empty()) return put_line(lines, areas.table.first, {.parts = {{"no ranks", TextStyle::kFaint}}});
  const auto selected = static_cast<int>(cursor.at - cursor.top);
  put_table(lines, areas.table, rank_table_lines(*state.job(), ranks, selected, state.columns()));
}

void put_host(Lines& lines, const TopState& state) {
  const DetailAreas areas = state.detail();
  put_head(lines, areas, host_head(state.host(), state.host_name()));
  const ListCursor& cursor = state.host_job_cursor();
  const auto count = static_cast<std::int64_t>(state.host_jobs().size());
  std::vector<const v1::Job*> jobs;
  for (std::int64_t row = cursor.top; row < std::min(cursor.top + areas.table.rows, count); ++row) {
    jobs.push_back(&state.host_jobs()[static_cast<std::size_t>(row)]);
  }
  if (jobs.empty()) return put_line(lines, areas.table.first, {.parts = {{"no jobs", TextStyle::kFaint}}});
  const auto selected = static_cast<int>(cursor.at - cursor.top);
  put_table(lines, areas.table, job_table_lines(jobs, selected, state.now(), state.columns()));
}

void put_help(Lines& lines, const TopState& state) {
  const auto first = static_cast<std::size_t>(state.help_top());
  const Lines& help = help_lines();
  for (std::size_t row = 0; first + row < help.size(); ++row) {
    put_line(lines, static_cast<int>(row), help[first + row]);
  }
}

void put_screen(Lines& lines, const TopState& state) {
  if (state.has_help()) return put_help(lines, state);
  put_line(lines, 0, header(state));
  if (const std::string problem = state.problem(); !problem.empty()) {
    put_line(lines, 1, {.parts = {{problem, TextStyle::kBad}}});
  }
  switch (state.screen()) {
    case TopScreen::kMain:
      return put_main(lines, state);
    case TopScreen::kJob:
      return put_job(lines, state);
    case TopScreen::kHost:
      return put_host(lines, state);
  }
}

}  // namespace

TopFrame frame_of(const TopState& state) {
  TopFrame frame;
  frame.lines.resize(static_cast<std::size_t>(state.lines()));
  put_screen(frame.lines, state);
  // The last line is the footer, unless it is the only one.
  if (state.lines() > 1 || state.is_typing()) frame.lines.back() = footer(state, frame.cursor_column);
  for (StyledLine& line : frame.lines) line = fitted(line, state.columns());
  return frame;
}

}  // namespace muster::cli::top
