// Asks what the host's NVIDIA GPUs are doing, without waiting: starts the helper at the first question, keeps it for
// the next ones until nobody has asked for a while, gives it up when it does not answer. After kMostTimeouts in a row
// it asks no more: each helper that hangs in the kernel is one that nobody can end.
//
// Owned by one object on the loop; loop thread only. Answers come from the loop, never from within ask(), and not after
// the destructor, which ends the helper.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "agent/gpus/helper.h"
#include "base/loop.h"

namespace muster::agent::gpus {

inline constexpr int kMostTimeouts = 3;
inline constexpr std::chrono::milliseconds kIdlePatience{10'000};

class Reader {
 public:
  using Answer = std::function<void(const base::Result<GpuReport>&)>;

  // `login_environment` outlives it.
  Reader(base::Loop& loop, const base::Environment& login_environment,
         std::chrono::milliseconds patience = kSurveyPatience);
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Who asks while an answer is on its way gets that one. DEADLINE_EXCEEDED: none within the patience.
  void ask(Answer answer);
  // Of the helper, or 0: a child of this process that is of no job.
  pid_t pid() const { return helper_ ? helper_->pid() : 0; }

 private:
  base::Status begin();
  void readable();
  void timed_out();
  void finish(base::Result<GpuReport> report);
  void deliver();

  base::Loop& loop_;
  const base::Environment& login_environment_;
  const std::chrono::milliseconds patience_;
  std::optional<Helper> helper_;
  std::vector<Answer> waiting_;
  std::optional<base::Result<GpuReport>> result_;  // to be delivered
  int timeouts_ = 0;
  base::Timer watch_;
  base::Timer deadline_;
  base::Timer delivery_;
  base::Timer idle_;
};

}  // namespace muster::agent::gpus
