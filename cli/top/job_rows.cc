#include "cli/top/job_rows.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "cli/view/job_table.h"
#include "cli/view/load_table.h"
#include "model/job_event.h"

namespace muster::cli::inline top {
namespace {

constexpr std::size_t kMostText = 1000;  // bytes of a text that a row looks at; longer than any screen is wide
constexpr const char* kNotYet = "…";     // of a row that has not arrived

std::string bounded(const std::string& text) {
  return text.size() <= kMostText ? text : text.substr(0, kMostText);
}

std::string lateness_text(const v1::RankLateness& late) {
  return "+" + model::describe_lateness(std::chrono::microseconds(late.median_us()));
}

// Returns why the job needs a look, and its style. Empty if it does not.
StyledText remark_of(const v1::Job& job) {
  if (job.has_hang()) return {"hangs: " + bounded(job.hang().cause()), TextStyle::kBad};
  if (job.has_wrong_world()) return {"wrong world", TextStyle::kBad};
  const bool is_as_expected = job.state() == v1::JOB_STATE_RUNNING || job.state() == v1::JOB_STATE_SUCCEEDED;
  if (!job.reason().empty() && !is_as_expected) return {bounded(job.reason()), style_of(job.state())};
  if (!job.last_change().empty()) return {bounded(job.last_change()), TextStyle::kNews};
  return {};
}

ScreenCell what_cell(const v1::Job& job, const std::string& command) {
  const StyledText remark = remark_of(job);
  if (remark.text.empty()) return {{bounded(command)}};
  return {remark, {"  "}, {bounded(command), TextStyle::kFaint}};
}

std::vector<ScreenColumn> job_columns() {
  return {{"job", Side::kLeft, 100, 8},    {"state", Side::kLeft, 90, 14}, {"ranks", Side::kRight, 60, 7},
          {"hosts", Side::kRight, 50, 7},  {"time", Side::kRight, 70, 12}, {"output", Side::kRight, 20, 9},
          {"user", Side::kLeft, 10, 12},   {"name", Side::kLeft, 80, 20},  {"late", Side::kLeft, 75, 24},
          {"command", Side::kLeft, 40, 12}};
}

ScreenRow row_of(const v1::Job& job, base::WallTime now) {
  const JobTexts texts = texts_of(job, now);
  const std::string output =
      job.has_output_bytes_per_second() ? format_rate(job.output_bytes_per_second()) : std::string("-");
  return {.cells = {{{job.id(), TextStyle::kStrong}},
                    {{texts.state, style_of(job.state())}},
                    {{fmt::format("{}", job.size())}},
                    {{texts.hosts}},
                    {{texts.age}},
                    {{output}},
                    {{job.user()}},
                    {{job.name().empty() ? "-" : bounded(job.name())}},
                    {{late_text(job), TextStyle::kWaiting}},
                    what_cell(job, texts.command)}};
}

bool has_text(const ScreenCell& cell) {
  return std::ranges::any_of(cell, [](const StyledText& part) { return !part.text.empty() && part.text != "-"; });
}

// Removes a column in which no row has a text.
void drop_if_empty(std::vector<ScreenColumn>& columns, std::vector<ScreenRow>& rows, std::string_view title) {
  const auto column = std::ranges::find(columns, title, &ScreenColumn::title);
  const std::ptrdiff_t index = column - columns.begin();
  const auto is_used = [index](const ScreenRow& row) {
    return std::ssize(row.cells) > index && has_text(row.cells[static_cast<std::size_t>(index)]);
  };
  if (column == columns.end() || std::ranges::any_of(rows, is_used)) return;
  columns.erase(column);
  for (ScreenRow& row : rows) {
    if (std::ssize(row.cells) > index) row.cells.erase(row.cells.begin() + index);
  }
}

TextStyle style_of(const v1::RankStatus& rank) {
  switch (rank.state()) {
    case v1::RANK_STATE_RUNNING:
      return TextStyle::kGood;
    case v1::RANK_STATE_ENDED: {
      const bool is_stopped = rank.end().kind() == v1::RANK_END_KIND_STOPPED;
      const bool is_well = rank.end().kind() == v1::RANK_END_KIND_EXITED && rank.end().exit_code() == 0;
      return is_stopped || is_well ? TextStyle::kFaint : TextStyle::kBad;
    }
    default:
      return TextStyle::kWaiting;
  }
}

const v1::RankLateness* lateness_of(const v1::Job& job, int rank) {
  const auto found = std::ranges::find(job.late(), rank, &v1::RankLateness::rank);
  return found == job.late().end() ? nullptr : &*found;
}

ScreenRow row_of(const v1::Job& job, const v1::RankStatus& rank) {
  const RankTexts texts = texts_of(job, rank);
  const v1::RankLateness* const late = lateness_of(job, rank.rank());
  const TextStyle late_style = late != nullptr && is_often_late(*late) ? TextStyle::kWaiting : TextStyle::kPlain;
  return {.cells = {{{fmt::format("{}", rank.rank()), TextStyle::kStrong}},
                    {{texts.role}},
                    {{rank.host()}},
                    {{texts.pid}},
                    {{texts.cores}},
                    {{texts.gpus}},
                    {{late == nullptr ? std::string("-") : fmt::format("{:.2f}", late->score()), late_style}},
                    {{late == nullptr ? std::string("-") : lateness_text(*late), late_style}},
                    {{texts.state, style_of(rank)}}}};
}

}  // namespace

std::vector<StyledLine> job_table_lines(const std::vector<const v1::Job*>& jobs, int selected, base::WallTime now,
                                        int width) {
  std::vector<ScreenColumn> columns = job_columns();
  std::vector<ScreenRow> rows;
  for (const v1::Job* job : jobs) {
    rows.push_back(job == nullptr ? ScreenRow{.cells = {{{kNotYet}}}} : row_of(*job, now));
  }
  for (const std::string_view title : {"output", "user", "name", "late"}) drop_if_empty(columns, rows, title);
  if (selected >= 0 && selected < std::ssize(rows)) rows[static_cast<std::size_t>(selected)].is_selected = true;
  return table_lines(columns, rows, width);
}

std::vector<StyledLine> rank_table_lines(const v1::Job& job, const std::vector<const v1::RankStatus*>& ranks,
                                         int selected, int width) {
  std::vector<ScreenColumn> columns = {
      {"rank", Side::kRight, 100, 7}, {"role", Side::kLeft, 30, 12}, {"host", Side::kLeft, 90, 24},
      {"pid", Side::kRight, 70, 10},  {"cpus", Side::kLeft, 40, 16}, {"gpus", Side::kLeft, 50, 16},
      {"score", Side::kRight, 45, 6}, {"late", Side::kRight, 60, 9}, {"state", Side::kLeft, 80, 8}};
  std::vector<ScreenRow> rows;
  for (const v1::RankStatus* rank : ranks) {
    rows.push_back(rank == nullptr ? ScreenRow{.cells = {{{kNotYet}}}} : row_of(job, *rank));
  }
  for (const std::string_view title : {"role", "cpus", "gpus", "score", "late"}) drop_if_empty(columns, rows, title);
  if (selected >= 0 && selected < std::ssize(rows)) rows[static_cast<std::size_t>(selected)].is_selected = true;
  return table_lines(columns, rows, width);
}

std::string late_text(const v1::Job& job) {
  const auto late = std::ranges::find_if(job.late(), is_often_late);
  return late == job.late().end() ? std::string() : fmt::format("{} {}", late->host(), lateness_text(*late));
}

TextStyle style_of(v1::JobState state) {
  switch (state) {
    case v1::JOB_STATE_RUNNING:
      return TextStyle::kGood;
    case v1::JOB_STATE_QUEUED:
    case v1::JOB_STATE_STOPPING:
      return TextStyle::kWaiting;
    case v1::JOB_STATE_STARTING:
      return TextStyle::kNews;
    case v1::JOB_STATE_FAILED:
    case v1::JOB_STATE_LOST:
      return TextStyle::kBad;
    case v1::JOB_STATE_SUCCEEDED:
    case v1::JOB_STATE_KILLED:
      return TextStyle::kFaint;
    default:
      return TextStyle::kPlain;
  }
}

}  // namespace muster::cli::top
