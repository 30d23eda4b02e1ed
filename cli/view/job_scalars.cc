// Read sample() first, then on_event().
#include "cli/view/job_scalars.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "cli/view/scalar_tags.h"

namespace muster::cli::inline view {
namespace {

// A rate over less time than this says nothing.
constexpr std::chrono::milliseconds kShortestRate{500};

double percent_of(std::int64_t value) {
  return static_cast<double>(std::clamp<std::int64_t>(value, 0, 100));
}

double mib_of(std::int64_t value) {
  return static_cast<double>(std::max<std::int64_t>(value, 0));
}

void add_load(const std::string& host, const v1::HostLoad& load, std::vector<TensorboardValue>& values) {
  if (load.has_cpu_percent()) values.push_back({host_tag(kCpuPercent, host), percent_of(load.cpu_percent())});
  if (load.has_memory_used_mib()) values.push_back({host_tag(kMemoryUsed, host), mib_of(load.memory_used_mib())});
  double busy = 0;
  int known = 0;
  std::optional<double> memory;
  for (const v1::GpuLoad& gpu : load.gpus()) {
    if (gpu.has_memory_used_mib()) memory = memory.value_or(0) + mib_of(gpu.memory_used_mib());
    if (gpu.busy_unknown()) continue;
    busy += percent_of(gpu.busy_percent());
    ++known;
  }
  if (known > 0) values.push_back({host_tag(kGpuPercent, host), busy / known});
  if (memory) values.push_back({host_tag(kGpuMemoryUsed, host), *memory});
}

}  // namespace

JobScalars::JobScalars(base::Loop& loop, const base::Clock& clock, std::unique_ptr<TensorboardFile> file,
                       std::function<std::uint64_t()> output_bytes, launcherd::JobObserver* next,
                       std::chrono::milliseconds period)
    : clock_(clock),
      file_(std::move(file)),
      output_bytes_(std::move(output_bytes)),
      next_(next),
      began_(clock.now()),
      sampled_(began_),
      timer_(loop.every(period, [this] { sample(); })) {
  write({{kGenerationTag, 0.0}});
}

void JobScalars::write(const std::vector<TensorboardValue>& values) {
  const auto step = std::chrono::floor<std::chrono::seconds>(clock_.now() - began_).count();
  const base::Status written = file_->write(clock_.wall(), step, values);
  if (!written.ok()) next_->on_warning(written.message() + "; no more is written for TensorBoard");
}

void JobScalars::sample() {
  std::vector<TensorboardValue> values;
  const base::MonotonicTime now = clock_.now();
  const std::uint64_t bytes = output_bytes_();
  if (now - sampled_ >= kShortestRate) {
    const double seconds = std::chrono::duration<double>(now - sampled_).count();
    values.push_back({kOutputTag, static_cast<double>(bytes - sampled_bytes_) / seconds});
    if (steps_) values.push_back({kStepsTag, static_cast<double>(std::exchange(*steps_, 0)) / seconds});
    sampled_ = now;
    sampled_bytes_ = bytes;
  }
  add_scores(late_, values);
  add_loads(values);
  write(values);
}

void JobScalars::add_loads(std::vector<TensorboardValue>& values) {
  for (auto& [host, load] : loads_) {
    if (std::exchange(load.is_new, false) || loads_.size() <= kHostsEachTime) add_load(host, load.load, values);
  }
}

void JobScalars::on_host_load(const std::string& host, const v1::HostLoad& load) {
  loads_[host] = {load, true};
  next_->on_host_load(host, load);
}

void JobScalars::on_late(const std::vector<v1::RankLateness>& latest) {
  late_ = latest;
  next_->on_late(latest);
}

void JobScalars::on_event(const model::JobEvent& event) {
  if (const auto* const began = std::get_if<model::GenerationBegan>(&event)) {
    late_.clear();
    write({{kGenerationTag, static_cast<double>(began->number)}, {kEventsTag, model::describe(*began)}});
  } else if (const auto* const again = std::get_if<model::JobRestarting>(&event)) {
    late_.clear();
    write({{kGenerationTag, static_cast<double>(again->attempt)},
           {kEventsTag, fmt::format("attempt {}: {}", again->attempt, again->reason)}});
  } else if (const auto* const hang = std::get_if<model::HangReported>(&event)) {
    write({{kHangsTag, static_cast<double>(++hangs_)},
           {kEventsTag, fmt::format("the job seems to hang: {}", hang->report.cause)}});
  } else if (const auto* const late = std::get_if<model::LateHost>(&event)) {
    write({{kEventsTag, model::describe(*late)}});
  } else if (const auto* const left_out = std::get_if<model::HostsLeftOut>(&event)) {
    write({{kEventsTag, model::describe(*left_out)}});
  } else if (const auto* const wrong = std::get_if<model::WrongWorld>(&event)) {
    write({{kEventsTag, model::describe(*wrong)}});
  }
  next_->on_event(event);
}

void JobScalars::on_finished(const launcherd::JobOutcome& outcome) {
  timer_.cancel();
  sample();
  write({{kEventsTag, fmt::format("ended with exit code {}", outcome.exit_code)}});
  next_->on_finished(outcome);
}

}  // namespace muster::cli::view
