// LoadHistory keeps how busy hosts and jobs were during about the last hour, for graphs. Each host and each running job
// has a ring of points. Daemon closes a point every kPeriod; the values are averages over that time.
//
// Owner: Daemon.
// Thread: loop thread only; no I/O.
// Memory: kBytesEach = 10,080 bytes for each host that has reported, and for each job. 4,000 hosts need 40 MB.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline daemon {

// A ring of points. It grows up to kMostPoints and then drops the oldest point.
class LoadRing {
 public:
  static constexpr std::size_t kMostPoints = 360;
  static constexpr std::uint32_t kUnknown = 0xffffffff;
  static constexpr float kNoRate = -1;

  // kUnknown and kNoRate mark values that are not known.
  struct Point {
    std::uint32_t time = 0;  // seconds since 1970
    std::uint32_t memory_mib = kUnknown;
    std::uint32_t gpu_memory_mib = kUnknown;
    float output_rate = kNoRate;
    float steps_rate = kNoRate;
    float network_rate = kNoRate;
    std::uint8_t cpu_percent = 0xff;
    std::uint8_t gpu_percent = 0xff;
  };

  void push(const Point& point);
  std::size_t size() const { return points_.size(); }
  const Point& operator[](std::size_t index) const;  // 0 is the oldest

 private:
  std::vector<Point> points_;
  std::size_t oldest_ = 0;
};

// JobManager's values at the end of a period.
struct LoadSample {
  struct Host {
    std::string name;
    std::uint64_t output_bytes = 0;  // a counter
  };
  struct Job {
    std::string id;
    std::optional<std::int64_t> output_rate;
    std::vector<std::string> hosts;
    std::optional<std::uint64_t> steps{};  // a counter; nullopt if the job reports none
  };
  std::vector<Host> hosts;  // those whose agent is up
  std::vector<Job> jobs;    // those that run
};

class LoadHistory {
 public:
  static constexpr std::chrono::seconds kPeriod{10};
  static constexpr std::size_t kBytesEach = LoadRing::kMostPoints * sizeof(LoadRing::Point);
  // An answer with more points has only the newest ones of each host.
  static constexpr std::size_t kMostPointsOfAnAnswer = 100'000;

  // Counts a report of the host's agent for the present period.
  void add_report(const std::string& host, const v1::HostLoad& load);
  // Ends the present period. Forgets jobs that no longer run. Forgets hosts that are not in `listed`.
  void close_period(base::WallTime now, const LoadSample& sample, const std::vector<std::string>& listed);

  // `hosts` are those of the request's job, or those of launcherd's list. NOT_FOUND: the request names other hosts.
  base::Result<v1::HistoryResponse> answer(const v1::HistoryRequest& request,
                                           const std::vector<std::string>& hosts) const;

 private:
  // Sums of the reports of one period.
  struct Sum {
    std::int64_t total = 0;
    int count = 0;
    void add(std::int64_t value);
    std::optional<std::int64_t> average() const;
  };
  struct Host {
    LoadRing ring;
    Sum cpu, memory, gpu, gpu_memory, network;
    std::optional<std::uint64_t> output_bytes;  // at the end of the last period
  };

  struct Job {
    LoadRing ring;
    std::optional<std::uint64_t> steps;  // at the end of the last period
  };

  void close_host(Host& host, std::uint32_t time, std::optional<std::uint64_t> output_bytes, double seconds);
  void close_job(Job& job, std::uint32_t time, const LoadSample::Job& sample, double seconds) const;
  LoadRing::Point job_point(std::uint32_t time, const LoadSample::Job& job) const;

  std::unordered_map<std::string, Host> hosts_;
  std::unordered_map<std::string, Job> jobs_;
  std::optional<base::WallTime> last_;  // end of the last period
};

}  // namespace muster::launcherd::daemon
