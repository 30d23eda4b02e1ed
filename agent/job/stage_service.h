// Carries out the launcher's orders about staged files (StageOrder of agent.proto), one after the other.
//
// Thread: call it on the loop thread, where the answers come, too. The work runs on a thread of its own, because a
// disk may be slow.
#pragma once

#include <functional>
#include <memory>

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

  void order(const v1::StageOrder& order);

 private:
  class Work;

  base::Loop& loop_;
  const OnAnswer on_answer_;
  Work* work_ = nullptr;                      // used by the thread only
  std::unique_ptr<base::DiskThread> thread_;  // null until the first order
};

}  // namespace muster::agent::job
