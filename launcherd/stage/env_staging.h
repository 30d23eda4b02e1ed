// Brings an environment to the hosts of a job before the job starts (--stage-env).
//
//   1. It packs the environment into one archive, unless the cache has it (env_packer.h).
//   2. Every agent reports whether it has the environment unpacked. If all have it, this was all.
//   3. The others get the archive, as --stage brings a file (staging.h): most of it goes from host to host.
//   4. They unpack it to their own disks. Each agent knows its folder: <session folder>/../envs.
//
// If a host does not answer in time, the staging fails, because its disk hangs.
//
// Owner: JobStaging.
// Thread: loop thread only. A thread of its own packs.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/disk_thread.h"
#include "base/gate.h"
#include "base/loop.h"
#include "base/status.h"
#include "launcherd/stage/env_packer.h"
#include "launcherd/stage/staging.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline stage {

class EnvStaging {
 public:
  struct Source {
    std::string path;          // absolute
    std::string never_staged;  // that of Staging
    std::string cache;         // the folder of EnvCache
  };

  // The parameters are those of Staging.
  EnvStaging(base::Loop& loop, Source source, std::vector<Staging::Host> hosts, std::string token,
             Staging::Events events, StagingLimits limits = {});

  void start();
  void answered(int agent, const v1::StageAnswer& answer);
  // Returns what the Launch of each host must name. Valid after Events::done with an ok status.
  v1::LaunchEnvironment environment() const;

 private:
  enum class Phase { kPack, kFind, kCheck, kSend, kUnpack, kOver };

  void pack();
  void packed(base::Result<PackedEnv> packed);
  void find();
  void found();
  void send();
  void sent(const base::Status& status);
  void unpack();
  void finish();
  void order(const Staging::Host& host, v1::StageOrder order);
  void count_answer(int agent, const v1::StageAnswer& answer);
  void each_period();
  void report_progress();
  void fail(base::Status why);
  std::string shown() const;

  base::Loop& loop_;
  const Source source_;
  const std::vector<Staging::Host> hosts_;
  const std::string token_;
  const Staging::Events events_;
  const StagingLimits limits_;
  Phase phase_ = Phase::kPack;
  std::shared_ptr<EnvProgress> progress_ = std::make_shared<EnvProgress>();
  std::shared_ptr<PackedEnv> packed_;        // null until it is packed
  bool was_repaired_ = false;                // the archive in the cache was damaged and was made anew
  std::vector<Staging::Host> without_;       // hosts that do not have the environment
  std::map<int, std::uint64_t> unanswered_;  // ids of orders, by agent
  std::uint64_t next_id_ = 1;
  std::chrono::milliseconds silent_{};  // since the last answer
  std::chrono::steady_clock::time_point unpack_began_{};
  std::unique_ptr<Staging> staging_;  // only in kSend
  base::Timer periods_;
  std::unique_ptr<base::DiskThread> thread_;
  base::Gate gate_;
};

}  // namespace muster::launcherd::stage
