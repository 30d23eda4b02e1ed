#include "launcherd/output/fold_sink.h"

#include <signal.h>

#include <utility>

#include "base/thread.h"
#include "model/exit_report.h"

namespace muster::launcherd::inline output {
namespace {

// The sink's thread shows lines this long before their window is over. So it wakes at most 40 times a second, and no
// line is late.
constexpr std::chrono::milliseconds kTimerSlack{25};

}  // namespace

FoldSink::FoldSink(ConsoleSink* console, const base::Clock* clock, const Config& config)
    : ForwardingSink(console),
      console_(console),
      clock_(clock),
      config_(config),
      fold_(config.options, [this](const FoldedText& text) { show(text); }) {}

base::Result<std::unique_ptr<FoldSink>> FoldSink::create(ConsoleSink* console, const base::Clock* clock,
                                                         const Config& config) {
  std::unique_ptr<FoldSink> sink(new FoldSink(console, clock, config));
  MUSTER_ASSIGN_OR_RETURN(sink->thread_, base::start_thread([self = sink.get()] { self->run(); }));
  return sink;
}

FoldSink::~FoldSink() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(timer_mutex_);
    is_stopping_ = true;
    timer_changed_.notify_all();
  }
  thread_.join();
}

void FoldSink::set_ranks(const std::vector<int>& ranks) {
  const std::lock_guard lock(timer_mutex_);
  new_ranks_ = ranks;
}

// Call it under mutex_.
void FoldSink::take_ranks() {
  std::optional<std::vector<int>> ranks;
  {
    const std::lock_guard lock(timer_mutex_);
    ranks.swap(new_ranks_);
  }
  if (ranks) fold_.set_ranks(*ranks);
}

bool FoldSink::passes(int rank, proto::OutputStream stream) const {
  return rank == config_.raw_rank || !config_.folds[stream == proto::OutputStream::kStdout ? 0 : 1];
}

base::Status FoldSink::write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) {
  const std::lock_guard lock(mutex_);
  take_ranks();
  if (passes(rank, stream)) return take_failure(console_->write(rank, stream, bytes, flags));
  fold_.write(rank, stream, bytes, {base::monotonic_now(), clock_->wall()});
  set_timer();
  return take_failure(base::ok_status());
}

base::Status FoldSink::end_rank(int rank) {
  const std::lock_guard lock(mutex_);
  take_ranks();
  fold_.end_rank(rank);
  set_timer();
  return take_failure(console_->end_rank(rank));
}

base::Status FoldSink::finish() {
  const std::lock_guard lock(mutex_);
  fold_.drain();
  return take_failure(console_->flush());
}

base::Status FoldSink::flush() {
  const std::lock_guard lock(mutex_);
  return take_failure(console_->flush());
}

bool FoldSink::finish_blocking(base::MonotonicTime deadline) {
  std::unique_lock lock(timer_mutex_);
  is_finishing_ = true;
  timer_changed_.notify_all();
  return timer_changed_.wait_until(lock, deadline, [this] { return !is_finishing_; });
}

// LineFold calls this under mutex_.
void FoldSink::show(const FoldedText& text) {
  base::Status status;
  if (text.ranks.size() == 1) {
    status = console_->write_at(text.ranks.front(), text.stream, text.text, text.stamp);
  } else {
    if (labelled_ != text.ranks) {
      labelled_ = text.ranks;
      label_ = model::format_rank_list(text.ranks);
    }
    status = console_->write_lines(label_, text.stream, text.text, text.stamp);
  }
  if (failure_.ok()) failure_ = std::move(status);
}

base::Status FoldSink::take_failure(base::Status status) {
  base::Status earlier = std::exchange(failure_, base::ok_status());
  return earlier.ok() ? status : earlier;
}

// Call it under mutex_.
void FoldSink::set_timer() {
  const std::optional<base::MonotonicTime> due = fold_.due();
  const std::lock_guard lock(timer_mutex_);
  const bool is_sooner = due && (!due_ || *due < *due_);
  due_ = due;
  if (is_sooner) timer_changed_.notify_all();
}

void FoldSink::show_due(bool all) {
  const std::lock_guard lock(mutex_);
  if (all) {
    fold_.drain();
  } else {
    fold_.advance({base::monotonic_now() + kTimerSlack, {}});
  }
  base::Status status = console_->flush();
  if (failure_.ok()) failure_ = std::move(status);
  set_timer();
}

void FoldSink::run() {
  sigset_t signals;
  sigfillset(&signals);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::unique_lock lock(timer_mutex_);
  while (!is_stopping_) {
    const bool is_due = due_ && base::monotonic_now() + kTimerSlack >= *due_;
    if (!is_due && !is_finishing_) {
      if (due_) {
        timer_changed_.wait_until(lock, *due_ - kTimerSlack);
      } else {
        timer_changed_.wait(lock);
      }
      continue;
    }
    const bool all = is_finishing_;
    lock.unlock();
    show_due(all);
    lock.lock();
    if (all) is_finishing_ = false;
    timer_changed_.notify_all();
  }
}

}  // namespace muster::launcherd::output
