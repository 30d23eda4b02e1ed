// Read report_page() at the end first.
#include "cli/view/report_page.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/strings.h"
#include "cli/view/job_table.h"
#include "cli/view/job_timeline.h"
#include "cli/view/local_time.h"
#include "cli/view/log_output.h"
#include "cli/view/report.h"
#include "cli/view/svg_text.h"

namespace muster::cli::inline view {
namespace {

constexpr double kPageWidth = 1200;
constexpr double kNamesWidth = 220;  // width of the names of lanes
constexpr int kLaneHeight = 18;
constexpr int kChartHeight = 220;
constexpr int kMaxEvents = 2000;

constexpr std::string_view kStyle = R"(
:root{color-scheme:light dark;--back:#fff;--text:#1a1a1a;--line:#767676;--well:#1b7f4b;--runs:#2b6cb0;--stopped:#6b6b6b;
--failed:#b45309;--root:#b3261e;--lost:#7b3fa0;--goes:#4a7fb5;--phase:#d7dce3}
@media(prefers-color-scheme:dark){:root{--back:#16181c;--text:#e6e6e6;--line:#9a9a9a;--well:#4cc38a;--runs:#6cb2f5;
--stopped:#a5a5a5;--failed:#f0a35e;--root:#ff8a80;--lost:#cf9cf0;--goes:#8fbbe8;--phase:#39404a}}
body{background:var(--back);color:var(--text);font:14px/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:1200px;padding:0 1rem}
svg{max-width:100%;height:auto;font:12px monospace}svg text{fill:var(--text)}
table{border-collapse:collapse}td,th{text-align:left;vertical-align:top;padding:.15rem .9rem .15rem 0}
pre{overflow-x:auto}.kWell{fill:var(--well)}.kRuns{fill:var(--runs)}.kStopped{fill:var(--stopped)}.kFailed{fill:var(--failed)}
.kRootCause{fill:var(--root)}.kLost{fill:var(--lost)}.kGoesOn{fill:var(--goes)}.phase{fill:var(--phase)}
.axis{stroke:var(--line);stroke-width:1}.curve{fill:none;stroke:var(--runs);stroke-width:2}.legend svg{vertical-align:-2px}
)";

struct EndStyle {
  RunEnd end;
  std::string_view css;
  std::string_view words;
  std::string_view mark;  // so that the meaning does not rest on the colour
};
constexpr std::array<EndStyle, 7> kEnds = {{{RunEnd::kWell, "kWell", "ended well", ""},
                                            {RunEnd::kRootCause, "kRootCause", "root cause", "!"},
                                            {RunEnd::kFailed, "kFailed", "failed", "x"},
                                            {RunEnd::kLost, "kLost", "lost with its host", "?"},
                                            {RunEnd::kStopped, "kStopped", "stopped by Muster", "-"},
                                            {RunEnd::kGoesOn, "kGoesOn", "goes on with another number", ">"},
                                            {RunEnd::kRuns, "kRuns", "runs", ""}}};

const EndStyle& style_of(RunEnd end) {
  return *std::ranges::find(kEnds, end, &EndStyle::end);
}

std::string seconds_text(double seconds) {
  return seconds < 120 ? fmt::format("{:.2f} s", seconds)
                       : format_duration(std::chrono::milliseconds(static_cast<long>(seconds * 1000)));
}

std::string text_at(double x, double y, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x, y, escape_markup(text));
}

std::string svg_document(double height, const std::string& label, const std::string& body) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"{0}\" viewBox=\"0 0 {1:.0f} {2:.0f}\" "
      "width=\"{1:.0f}\" height=\"{2:.0f}\">\n{3}</svg>\n",
      escape_markup(label), kPageWidth, height, body);
}

// Returns a round step so that the axis has about eight of them.
double step_of(double length) {
  double step = 0.01;
  for (int i = 0; length / step > 8; ++i) step *= i % 3 == 1 ? 2.5 : 2;  // 0.01, 0.02, 0.05, 0.1, …
  return step;
}

class TimelineDrawing {
 public:
  explicit TimelineDrawing(const Timeline& timeline)
      : scale_((kPageWidth - kNamesWidth) / std::max(timeline.length, 0.001)), length_(timeline.length) {
    draw_axis(static_cast<int>(timeline.lanes.size()) + 1);
    draw_lane("job", timeline.phases, true);
    for (const TimelineLane& lane : timeline.lanes) draw_lane(lane.name, lane.runs, false);
  }

  std::string document() const {
    return svg_document((row_ + 2) * kLaneHeight, "time line of phases and ranks", body_);
  }

 private:
  void draw_axis(int rows) {
    const double step = step_of(length_);
    for (int i = 0; i * step <= length_; ++i) {
      const double x = kNamesWidth + i * step * scale_;
      body_ += fmt::format("<path class=\"axis\" d=\"M{0:.1f} {1}V{2}\"/>\n", x, kLaneHeight, (rows + 1) * kLaneHeight);
      if (x < kPageWidth - 40) body_ += text_at(x + 2, 12, fmt::format("{:g} s", i * step));
    }
    row_ = 1;
  }

  void draw_lane(const std::string& name, const std::vector<TimelineRun>& runs, bool is_phase) {
    const int y = row_ * kLaneHeight;
    body_ += text_at(2, y + 13, fitting_text(name, kNamesWidth - 8));
    for (const TimelineRun& run : runs) draw_run(name, run, y, is_phase);
    ++row_;
  }

  void draw_run(const std::string& name, const TimelineRun& run, int y, bool is_phase) {
    const double x = kNamesWidth + run.begin * scale_;
    const double width = std::max((run.end - run.begin) * scale_, 2.0);
    const EndStyle& style = style_of(run.how);
    const std::string label = is_phase ? run.text : std::string(style.mark);
    body_ += fmt::format(
        "<g><title>{}: {}, {} to {}</title><rect class=\"{}\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"/>",
        escape_markup(name), escape_markup(run.text), seconds_text(run.begin), seconds_text(run.end),
        is_phase ? "phase" : style.css, x, y + 2, width, kLaneHeight - 4);
    // The mark of an end stands behind the bar, where the text's colour is readable.
    body_ += is_phase ? text_at(x + 3, y + 13, fitting_text(label, width - 6))
                      : text_at(std::min(x + width + 2, kPageWidth - 8), y + 13, label);
    body_ += "</g>\n";
  }

  const double scale_;
  const double length_;
  int row_ = 0;
  std::string body_;
};

std::string legend() {
  std::string text = "<p class=\"legend\">";
  for (const EndStyle& style : kEnds) {
    text += fmt::format(
        "<svg width=\"14\" height=\"12\"><rect class=\"{}\" width=\"12\" height=\"12\"/></svg> {}{}{} &nbsp; ",
        style.css, style.words, style.mark.empty() ? "" : " ", escape_markup(style.mark));
  }
  return text + "</p>\n";
}

void add_row(std::string& table, std::string_view name, const std::string& value) {
  if (!value.empty()) table += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", name, escape_markup(value));
}

// Returns how many hosts the job had in its newest generation.
int hosts_of(const ReportedJob& reported) {
  int hosts = reported.job.hosts_size();  // an ended job of launcherd has none
  for (const v1::Event& event : reported.events) {
    if (event.has_job_starting()) hosts = event.job_starting().placement().hosts_size();
    if (event.has_generation_began()) hosts = event.generation_began().placement().hosts_size();
  }
  return hosts;
}

std::string facts_of(const ReportedJob& reported) {
  const v1::Job& job = reported.job;
  std::string command;
  for (const std::string& word : job.command()) command += (command.empty() ? "" : " ") + base::shell_quote(word);
  std::string table = "<table>\n";
  add_row(table, "name", base::printable(job.name()));
  add_row(table, "command", base::printable(command));
  add_row(table, "ranks", fmt::format("{} on {}", job.size(), plural(hosts_of(reported), "host", "hosts")));
  if (job.has_submitted()) add_row(table, "submitted", format_local_time(wall_time_of(job.submitted())));
  if (job.has_started()) add_row(table, "started", format_local_time(wall_time_of(job.started())));
  if (job.has_ended()) add_row(table, "ended", format_local_time(wall_time_of(job.ended())));
  if (job.has_exit_code()) add_row(table, "exit code", std::to_string(job.exit_code()));
  add_row(table, "reason", base::printable(job.reason()));
  add_row(table, "last change", base::printable(job.last_change()));
  return table + "</table>\n";
}

std::string events_of(const std::vector<v1::Event>& events) {
  std::string text = "<details><summary>Events</summary><pre>";
  const int count = static_cast<int>(events.size());
  for (int i = 0; i < std::min(count, kMaxEvents); ++i)
    text += escape_markup(format_event(events[static_cast<std::size_t>(i)]));
  if (count > kMaxEvents) text += fmt::format("and {} more: muster events JOB\n", count - kMaxEvents);
  return text + "</pre></details>\n";
}

double time_of(const v1::Event& event) {
  return static_cast<double>(event.time().seconds()) + static_cast<double>(event.time().nanos()) * 1e-9;
}

// Returns the time from the moment at which the last of the job's ranks ran to its end.
std::optional<double> run_time_of(const ReportedJob& reported) {
  std::optional<double> all_run;
  for (const v1::Event& event : reported.events) {
    if (event.has_rank_up()) all_run = time_of(event);
    if (event.has_generation_began() || event.has_job_restarting()) return std::nullopt;  // not one run
    if (event.has_job_ended() && event.job_ended().exit_code() == 0 && all_run) return time_of(event) - *all_run;
  }
  return std::nullopt;
}

// One chart: a curve through points, whose values are written beside them.
std::string curve(double left, double width, const std::string& title, const std::vector<double>& values, double top,
                  const std::vector<ScalingPoint>& points, bool is_percent) {
  const double bottom = kChartHeight - 30;
  const double height = bottom - 48;  // below the title and the value of the highest point
  std::string body = text_at(left, 14, title);
  body += fmt::format("<path class=\"axis\" d=\"M{0:.1f} {1}V{2}H{3:.1f}\" fill=\"none\"/>\n", left, 24, bottom,
                      left + width);
  const int most = points.back().ranks;
  std::string path;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double x = left + (width - 80) * points[i].ranks / most;
    const double y = bottom - height * values[i] / top;
    path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x, y);
    body +=
        fmt::format("<g><title>{}: {} ranks</title><circle class=\"kRuns\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/></g>\n",
                    escape_markup(base::printable(points[i].job)), points[i].ranks, x, y);
    body += text_at(x + 6, y - 6, is_percent ? fmt::format("{:.0f} %", values[i] * 100) : seconds_text(values[i]));
    body += text_at(x - 4, bottom + 16, std::to_string(points[i].ranks));
  }
  return body + fmt::format("<path class=\"curve\" d=\"{}\"/>\n", path);
}

std::string scaling_section(const std::vector<ScalingPoint>& points) {
  if (points.size() < 2) return "";
  std::vector<double> times;
  std::vector<double> efficiencies;
  for (const ScalingPoint& point : points) {
    times.push_back(point.seconds);
    efficiencies.push_back(point.efficiency);
  }
  const std::string body = curve(40, 540, "run time over ranks", times, std::ranges::max(times), points, false) +
                           curve(640, 540, "efficiency over ranks", efficiencies,
                                 std::max(1.0, std::ranges::max(efficiencies)), points, true);
  std::string text =
      "<h2>Scaling</h2>\n<p>These jobs are compared as if they did the same work. The time counts from the "
      "start of the last rank.</p>\n" +
      svg_document(kChartHeight, "run time and efficiency over the number of ranks", body) +
      "<table><tr><th>job</th><th>ranks</th><th>run time</th><th>speed-up</th><th>efficiency</th></tr>\n";
  for (const ScalingPoint& point : points) {
    text += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.2f}</td><td>{:.0f} %</td></tr>\n",
                        escape_markup(base::printable(point.job)), point.ranks, seconds_text(point.seconds),
                        point.speedup, point.efficiency * 100);
  }
  return text + "</table>\n";
}

}  // namespace

std::vector<ScalingPoint> scaling_of(const std::vector<ReportedJob>& jobs) {
  std::vector<ScalingPoint> points;
  for (const ReportedJob& reported : jobs) {
    const auto seconds = run_time_of(reported);
    if (!seconds || *seconds <= 0 || reported.job.size() <= 0) continue;
    points.push_back({.job = reported.job.id(), .ranks = reported.job.size(), .seconds = *seconds});
  }
  std::ranges::sort(points, [](const ScalingPoint& left, const ScalingPoint& right) {
    return std::pair(left.ranks, left.seconds) < std::pair(right.ranks, right.seconds);
  });
  for (ScalingPoint& point : points) {
    point.speedup = points.front().seconds / point.seconds;
    point.efficiency = point.speedup * points.front().ranks / point.ranks;
  }
  return points;
}

std::string report_page(const std::vector<ReportedJob>& jobs) {
  const std::string title =
      jobs.size() == 1 ? "Job " + base::printable(jobs.front().job.id()) : fmt::format("{} jobs", jobs.size());
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width\">\n<title>{0}</title>\n<style>{1}</style>\n<h1>{0}</h1>\n",
      escape_markup(title), kStyle);
  page += scaling_section(scaling_of(jobs)) + legend();
  for (const ReportedJob& reported : jobs) {
    if (jobs.size() > 1) page += fmt::format("<h2>Job {}</h2>\n", escape_markup(base::printable(reported.job.id())));
    page += facts_of(reported) + TimelineDrawing(timeline_of(reported.events)).document() + events_of(reported.events);
  }
  return page + "</html>\n";
}

}  // namespace muster::cli::view
