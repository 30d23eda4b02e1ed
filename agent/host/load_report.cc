#include "agent/host/load_report.h"

#include <utility>

#include "agent/gpus/gpu_loads.h"
#include "base/strings.h"

namespace muster::agent::inline host {

LoadReport::LoadReport(base::Loop& loop, HostLoadReader reader, Send send, Gpus gpus, std::chrono::milliseconds period)
    : loop_(loop), reader_(std::move(reader)), send_(std::move(send)), period_(period), gpus_(std::move(gpus)) {}

void LoadReport::begin() {
  last_sent_.reset();
  reader_.read();  // the first measured period begins here
  seen_.reset();
  problem_.reset();
  has_failed_ = false;
  ask_gpus();
  timer_ = loop_.every(period_, [this] { measure(); });
}

void LoadReport::end() {
  timer_.cancel();
}

void LoadReport::measure() {
  v1::HostLoad load = reader_.read();
  if (seen_) add_gpu_loads(gpus_.known, *seen_, load);
  if (problem_) load.set_gpu_problem(*problem_);
  ask_gpus();
  if (last_sent_ && !is_noticeable(*last_sent_, load)) return;
  last_sent_ = load;
  v1::AgentMessage message;
  *message.mutable_host_load() = std::move(load);
  send_(std::move(message));
}

// Asks about the GPUs for the next report. After a failure, the next report leaves the GPUs out. If NVIDIA's library
// has failed, this function asks less often, because each question starts a process.
void LoadReport::ask_gpus() {
  if (gpus_.reader == nullptr) return;
  if (has_failed_ && !gpus_.reader->question().files && ++passed_over_ < kFailedPeriods) return;
  passed_over_ = 0;
  gpus_.reader->ask(gate_.wrap([this](const base::Result<gpus::GpuReport>& report) {
    seen_.reset();
    if (report.ok()) seen_ = *report;
    has_failed_ = report.ok() ? report->driver.empty() : report.status().code() != base::Code::kDeadlineExceeded;
    if (gpus_.reader->question().nvidia)
      problem_ = base::valid_utf8(report.ok() ? report->problem : report.status().message());
  }));
}

}  // namespace muster::agent::host
