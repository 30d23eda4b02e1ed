// Carries out a launcher's orders about staged files (StageOrder of agent.proto), one after the other, on a thread of
// its own: a disk may take its time. Loop thread only; answers come on it.
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
  // What has begun is given up, the rest forgotten; half a file is taken away. Soon, but where the file system hangs:
  // see base/disk_thread.h.
  ~StageService();
  StageService(const StageService&) = delete;
  StageService& operator=(const StageService&) = delete;

  void order(const v1::StageOrder& order);

 private:
  class Work;

  base::Loop& loop_;
  const OnAnswer on_answer_;
  Work* work_ = nullptr;                      // the thread's
  std::unique_ptr<base::DiskThread> thread_;  // from the first order on
};

}  // namespace muster::agent::job
