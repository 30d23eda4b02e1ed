// LoadRing, then LoadHistory.
// Read add_report() and close_period() first, then answer().
#include "launcherd/daemon/load_history.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/strings.h"

namespace muster::launcherd::inline daemon {
namespace {

using Point = LoadRing::Point;

constexpr std::int64_t kHighestRate = 1'000'000'000'000'000;  // so that sums do not overflow

std::uint32_t seconds_of(base::WallTime time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(seconds, 0, LoadRing::kUnknown));
}

std::uint8_t percent(std::optional<std::int64_t> value) {
  return value ? static_cast<std::uint8_t>(std::clamp<std::int64_t>(*value, 0, 100)) : std::uint8_t{0xff};
}

std::uint32_t mib(std::optional<std::int64_t> value) {
  if (!value) return LoadRing::kUnknown;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(*value, 0, LoadRing::kUnknown - 1));
}

void add_point(const Point& point, v1::HistoryPoint& to) {
  to.mutable_time()->set_seconds(point.time);
  if (point.cpu_percent <= 100) to.set_cpu_percent(point.cpu_percent);
  if (point.gpu_percent <= 100) to.set_gpu_percent(point.gpu_percent);
  if (point.memory_mib != LoadRing::kUnknown) to.set_memory_used_mib(point.memory_mib);
  if (point.gpu_memory_mib != LoadRing::kUnknown) to.set_gpu_memory_used_mib(point.gpu_memory_mib);
  if (point.output_rate >= 0) to.set_output_bytes_per_second(std::llround(point.output_rate));
  if (point.steps_rate >= 0) to.set_steps_per_second(static_cast<double>(point.steps_rate));
  if (point.network_rate >= 0) to.set_network_bytes_per_second(std::llround(point.network_rate));
}

// Returns the growth of a counter per second. kNoRate if it is unknown, or has begun again.
float rate_of(std::optional<std::uint64_t> before, std::optional<std::uint64_t> now, double seconds) {
  if (!before || !now || *now < *before || seconds <= 0) return LoadRing::kNoRate;
  return static_cast<float>(static_cast<double>(*now - *before) / seconds);
}

// Adds the newest points, at most `most`, that are younger than `since`.
void add_points(const LoadRing& ring, std::size_t most, std::int64_t since,
                google::protobuf::RepeatedPtrField<v1::HistoryPoint>& to) {
  for (std::size_t i = ring.size() - std::min(ring.size(), most); i < ring.size(); ++i) {
    if (std::int64_t{ring[i].time} > since) add_point(ring[i], *to.Add());
  }
}

}  // namespace

void LoadRing::push(const Point& point) {
  if (points_.size() < kMostPoints) {
    if (points_.capacity() == points_.size()) points_.reserve(std::min(kMostPoints, points_.size() * 2 + 15));
    points_.push_back(point);
    return;
  }
  points_[oldest_] = point;
  oldest_ = (oldest_ + 1) % kMostPoints;
}

const LoadRing::Point& LoadRing::operator[](std::size_t index) const {
  return points_[(oldest_ + index) % points_.size()];
}

void LoadHistory::Sum::add(std::int64_t value) {
  total += value;
  ++count;
}

std::optional<std::int64_t> LoadHistory::Sum::average() const {
  if (count == 0) return std::nullopt;
  return (total + count / 2) / count;
}

void LoadHistory::add_report(const std::string& host, const v1::HostLoad& load) {
  Host& to = hosts_[host];
  if (load.has_cpu_percent()) to.cpu.add(load.cpu_percent());
  if (load.has_memory_used_mib()) to.memory.add(load.memory_used_mib());
  if (load.has_network_bytes_per_second()) {
    to.network.add(std::clamp<std::int64_t>(load.network_bytes_per_second(), 0, kHighestRate));
  }
  std::int64_t gpu_memory = 0;
  bool knows_gpu_memory = false;
  Sum busy;
  for (const v1::GpuLoad& gpu : load.gpus()) {
    if (!gpu.busy_unknown()) busy.add(gpu.busy_percent());
    if (!gpu.has_memory_used_mib()) continue;
    gpu_memory += gpu.memory_used_mib();
    knows_gpu_memory = true;
  }
  if (const auto average = busy.average()) to.gpu.add(*average);
  if (knows_gpu_memory) to.gpu_memory.add(gpu_memory);
}

void LoadHistory::close_host(Host& host, std::uint32_t time, std::optional<std::uint64_t> output_bytes,
                             double seconds) {
  const bool is_silent = host.cpu.count == 0 && host.memory.count == 0 && !output_bytes;
  Point point{.time = time,
              .memory_mib = mib(host.memory.average()),
              .gpu_memory_mib = mib(host.gpu_memory.average()),
              .output_rate = rate_of(host.output_bytes, output_bytes, seconds),
              .cpu_percent = percent(host.cpu.average()),
              .gpu_percent = percent(host.gpu.average())};
  if (const auto rate = host.network.average()) point.network_rate = static_cast<float>(*rate);
  host.output_bytes = output_bytes;
  host.cpu = host.memory = host.gpu = host.gpu_memory = host.network = {};
  if (!is_silent) host.ring.push(point);
}

void LoadHistory::close_job(Job& job, std::uint32_t time, const LoadSample::Job& sample, double seconds) const {
  Point point = job_point(time, sample);
  point.steps_rate = rate_of(job.steps, sample.steps, seconds);
  job.steps = sample.steps;
  job.ring.push(point);
}

// Averages the newest points of the job's hosts, and adds up their memory and their network traffic.
LoadRing::Point LoadHistory::job_point(std::uint32_t time, const LoadSample::Job& job) const {
  Sum cpu, gpu;
  std::optional<std::int64_t> memory, gpu_memory;
  float network = LoadRing::kNoRate;
  for (const std::string& name : job.hosts) {
    const auto host = hosts_.find(name);
    if (host == hosts_.end() || host->second.ring.size() == 0) continue;
    const Point& last = host->second.ring[host->second.ring.size() - 1];
    if (last.time != time) continue;
    if (last.cpu_percent <= 100) cpu.add(last.cpu_percent);
    if (last.gpu_percent <= 100) gpu.add(last.gpu_percent);
    if (last.memory_mib != LoadRing::kUnknown) memory = memory.value_or(0) + last.memory_mib;
    if (last.gpu_memory_mib != LoadRing::kUnknown) gpu_memory = gpu_memory.value_or(0) + last.gpu_memory_mib;
    if (last.network_rate >= 0) network = std::max(network, 0.0F) + last.network_rate;
  }
  return {.time = time,
          .memory_mib = mib(memory),
          .gpu_memory_mib = mib(gpu_memory),
          .output_rate = job.output_rate ? static_cast<float>(*job.output_rate) : LoadRing::kNoRate,
          .network_rate = network,
          .cpu_percent = percent(cpu.average()),
          .gpu_percent = percent(gpu.average())};
}

void LoadHistory::close_period(base::WallTime now, const LoadSample& sample, const std::vector<std::string>& listed) {
  const std::uint32_t time = seconds_of(now);
  const double seconds = last_ ? std::chrono::duration<double>(now - *last_).count() : 0;
  last_ = now;
  const std::unordered_set<std::string> known(listed.begin(), listed.end());
  std::erase_if(hosts_, [&](const auto& host) { return !known.contains(host.first); });
  std::unordered_map<std::string_view, std::uint64_t> output;
  for (const LoadSample::Host& host : sample.hosts) {
    output[host.name] = host.output_bytes;
    if (known.contains(host.name)) hosts_.try_emplace(host.name);
  }
  for (auto& [name, host] : hosts_) {
    const auto bytes = output.find(name);
    close_host(host, time, bytes == output.end() ? std::nullopt : std::optional(bytes->second), seconds);
  }
  std::unordered_set<std::string_view> running;
  for (const LoadSample::Job& job : sample.jobs) {
    running.insert(job.id);
    close_job(jobs_[job.id], time, job, seconds);
  }
  std::erase_if(jobs_, [&](const auto& job) { return !running.contains(job.first); });
}

base::Result<v1::HistoryResponse> LoadHistory::answer(const v1::HistoryRequest& request,
                                                      const std::vector<std::string>& hosts) const {
  const std::unordered_set<std::string> known(hosts.begin(), hosts.end());
  for (const std::string& name : request.hosts()) {
    if (!known.contains(name)) return base::not_found("unknown host {}", base::printable(name.substr(0, 256)));
  }
  std::vector<std::string> wanted(request.hosts().begin(), request.hosts().end());
  if (wanted.empty()) wanted = hosts;
  const std::size_t most = kMostPointsOfAnAnswer / std::max<std::size_t>(1, wanted.size());
  const std::int64_t since = request.has_since() ? request.since().seconds() : -1;
  v1::HistoryResponse response;
  if (const auto job = jobs_.find(request.job()); job != jobs_.end()) {
    add_points(job->second.ring, LoadRing::kMostPoints, since, *response.mutable_job());
  }
  for (const std::string& name : wanted) {
    v1::HostHistory& history = *response.add_hosts();
    history.set_host(name);
    const auto host = hosts_.find(name);
    if (host != hosts_.end()) add_points(host->second.ring, most, since, *history.mutable_points());
  }
  return response;
}

}  // namespace muster::launcherd::daemon
