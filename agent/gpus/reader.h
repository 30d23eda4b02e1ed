// Asks what the host's GPUs are doing, without blocking. It starts the helper at the first question and keeps it
// until no question has come for kIdlePatience.
//
// It kills a helper that does not answer, or whose NVIDIA library fails. If the helper has ended since its last answer,
// it starts a new one for the same query.
// After kMostTimeouts timeouts in a row it asks at most once in kRetryPause, and only when all killed helpers have
// ended. A killed helper that has not ended shows that the driver still hangs.
//
// Owner: one object on the loop.
// Thread: the loop thread only. Answers come from the loop, never from within ask(). None comes after the destructor,
// which kills the helper.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "agent/gpus/helper.h"
#include "agent/gpus/killed_helpers.h"
#include "base/loop.h"

namespace muster::agent::inline gpus {

inline constexpr int kMostTimeouts = 3;
inline constexpr std::chrono::milliseconds kIdlePatience{10'000};
inline constexpr std::chrono::milliseconds kRetryPause{60'000};

class Reader {
 public:
  using Answer = std::function<void(const base::Result<GpuReport>&)>;

  // The arguments that are references outlive this object. `question` says which GPUs it asks about.
  Reader(base::Loop& loop, const base::Environment& login_environment, KilledHelpers& killed,
         std::chrono::milliseconds patience = kSurveyPatience, Question question = {},
         std::chrono::milliseconds retry_pause = kRetryPause);
  ~Reader() { give_up_helper(); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // A call while a question is under way gets that question's answer. DEADLINE_EXCEEDED: no answer within the
  // patience.
  void ask(Answer answer);
  bool is_asking() const { return !waiting_.empty(); }
  const Question& question() const { return question_; }
  // Returns the helper's pid, or 0. The helper is a child of this process and of no job.
  pid_t pid() const { return helper_ ? helper_->pid() : 0; }

 private:
  bool is_too_early();
  void try_once();
  base::Status begin();
  void readable();
  void failed(const base::Status& why);
  void give_up_helper();
  void timed_out();
  void finish(base::Result<GpuReport> report);
  void deliver();

  base::Loop& loop_;
  const base::Environment& login_environment_;
  KilledHelpers& killed_;
  const std::chrono::milliseconds patience_;
  const Question question_;
  const std::chrono::milliseconds retry_pause_;
  std::optional<Helper> helper_;
  std::vector<Answer> waiting_;
  std::optional<base::Result<GpuReport>> result_;  // the result that the loop must still deliver
  int timeouts_ = 0;
  base::MonotonicTime retry_at_{};
  bool may_try_again_ = false;
  base::Timer watch_;
  base::Timer deadline_;
  base::Timer delivery_;
  base::Timer idle_;
};

}  // namespace muster::agent::gpus
