// Carries out the launcher's orders about staged files (StageOrder of agent.proto), one after the other.
//
// In a broadcast (stage_broadcast.proto) it also exchanges blocks with the job's other hosts. Then it sends reports,
// too, which are answers with id 0.
//
// It also finds and unpacks environments (--stage-env; agent/stage/env_store.h).
//
// Thread: call it on the loop thread, where the answers come, too. The work runs on threads of its own, because a
// disk may be slow.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/job/stage_exchange.h"
#include "base/disk_thread.h"
#include "base/loop.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

class StageService {
 public:
  using OnAnswer = std::function<void(v1::StageAnswer)>;

  StageService(base::Loop& loop, OnAnswer on_answer);
  // Aborts the running order, drops the others, and removes a half-written file. Returns soon, unless the file system
  // hangs (base/disk_thread.h).
  ~StageService();
  StageService(const StageService&) = delete;
  StageService& operator=(const StageService&) = delete;

  // `environments` is this host's folder of environments. Needed only for orders that are about them.
  void order(const v1::StageOrder& order, const std::string& environments = "");

 private:
  class Work;

  void start_exchange(StageExchange::Parts parts, v1::StageAnswer& answer);

  base::Loop& loop_;
  const OnAnswer on_answer_;
  Work* work_ = nullptr;                      // used by the thread only
  std::unique_ptr<StageExchange> exchange_;   // only during a broadcast
  std::unique_ptr<base::DiskThread> thread_;  // null until the first order
};

}  // namespace muster::agent::job
