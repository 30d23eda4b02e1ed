// Read history_scalars() at the end first.
#include "cli/view/history_scalars.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cli/view/job_table.h"
#include "cli/view/scalar_tags.h"

namespace muster::cli::inline view {
namespace {

using Values = std::vector<TensorboardValue>;
using Moments = std::map<base::WallTime, Values>;

base::WallTime wall_time(std::int64_t seconds, std::int64_t nanos) {
  return base::WallTime(std::chrono::duration_cast<base::WallTime::duration>(std::chrono::seconds(seconds) +
                                                                             std::chrono::nanoseconds(nanos)));
}

base::WallTime time_at(const v1::Event& event) {
  return wall_time(event.time().seconds(), event.time().nanos());
}

void add_job_point(const v1::HistoryPoint& point, Values& to) {
  if (point.has_steps_per_second()) to.push_back({kStepsTag, point.steps_per_second()});
  if (point.has_output_bytes_per_second()) {
    to.push_back({kOutputTag, static_cast<double>(point.output_bytes_per_second())});
  }
}

void add_host_point(const std::string& host, const v1::HistoryPoint& point, Values& to) {
  const auto add = [&](bool is_known, std::string_view what, std::int64_t value) {
    if (is_known) to.push_back({host_tag(what, host), static_cast<double>(value)});
  };
  add(point.has_cpu_percent(), kCpuPercent, point.cpu_percent());
  add(point.has_memory_used_mib(), kMemoryUsed, point.memory_used_mib());
  add(point.has_gpu_percent(), kGpuPercent, point.gpu_percent());
  add(point.has_gpu_memory_used_mib(), kGpuMemoryUsed, point.gpu_memory_used_mib());
  add(point.has_output_bytes_per_second(), kHostOutput, point.output_bytes_per_second());
}

void add_event(const v1::Event& event, int& hangs, Values& to) {
  if (event.has_generation_began()) {
    to.push_back({kGenerationTag, static_cast<double>(event.generation_began().number())});
  } else if (event.has_job_restarting()) {
    to.push_back({kGenerationTag, static_cast<double>(event.job_restarting().attempt())});
  } else if (event.has_hang_reported()) {
    to.push_back({kHangsTag, static_cast<double>(++hangs)});
  } else if (!event.has_job_ended() && !event.has_late_host() && !event.has_wrong_world() &&
             !event.has_hosts_left_out()) {
    return;
  }
  to.push_back({kEventsTag, event_text(event)});
}

}  // namespace

std::vector<HistoryRecord> history_scalars(const ReportedJob& job, const v1::HistoryResponse& history,
                                           base::WallTime now) {
  Moments moments;
  const base::WallTime begin = job.events.empty() ? wall_time(job.job.started().seconds(), job.job.started().nanos())
                                                  : time_at(job.events.front());
  const auto values_at = [&](const v1::HistoryPoint& point) -> Values* {
    const base::WallTime at = wall_time(point.time().seconds(), point.time().nanos());
    return at < begin ? nullptr : &moments[at];
  };
  for (const v1::HistoryPoint& point : history.job()) {
    if (Values* const values = values_at(point)) add_job_point(point, *values);
  }
  for (const v1::HostHistory& host : history.hosts()) {
    for (const v1::HistoryPoint& point : host.points()) {
      if (Values* const values = values_at(point)) add_host_point(host.host(), point, *values);
    }
  }
  int hangs = 0;
  for (const v1::Event& event : job.events) add_event(event, hangs, moments[time_at(event)]);
  add_scores({job.job.late().begin(), job.job.late().end()}, moments[now]);
  std::vector<HistoryRecord> records;
  for (auto& [time, values] : moments) {
    if (values.empty()) continue;
    const auto step = std::chrono::floor<std::chrono::seconds>(time - begin).count();
    records.push_back({time, std::max<std::int64_t>(step, 0), std::move(values)});
  }
  return records;
}

}  // namespace muster::cli::view
