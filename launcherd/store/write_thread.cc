// WriteThread: run() gathers batches, commits them, keeps those that must wait, and empties the log.
// Read run first, then gather and commit, then retry_kept and hold, then wipe_if_due.
#include "launcherd/store/write_thread.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "base/thread.h"

namespace muster::launcherd::inline store {
namespace {

using base::Code;

// Pauses between tries of kept batches: the first pause, and the longest one after repeated failures.
constexpr std::chrono::milliseconds kFirstPause{500};
constexpr std::chrono::milliseconds kLongestPause{4000};
// Emptying the log waits for the disk, so several jobs that end share one pass.
constexpr std::chrono::milliseconds kWipePause{2000};
// Limit on batches per transaction, so that the first of many gets its result soon.
constexpr std::size_t kMostBatches = 512;

// True if a later try of the batch may succeed.
bool is_passing(const base::Status& status) {
  return status.code() == Code::kResourceExhausted || status.code() == Code::kUnavailable;
}

// True if one batch broke the transaction, or each batch would break it.
bool is_broken(const base::Status& status) {
  return status.code() == Code::kInternal || status.code() == Code::kDataLoss;
}

}  // namespace

base::Result<std::unique_ptr<WriteThread>> WriteThread::start(BatchWriter writer, base::Loop& loop) {
  std::unique_ptr<WriteThread> made(new WriteThread(std::move(writer), loop));
  MUSTER_ASSIGN_OR_RETURN(made->thread_, base::start_thread([self = made.get()] { self->run(); }));
  return made;
}

WriteThread::~WriteThread() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void WriteThread::put(std::vector<PendingBatch> batches) {
  std::vector<PendingBatch> refused;
  {
    const std::lock_guard lock(mutex_);
    for (PendingBatch& each : batches) {
      if (bytes_ + each.bytes > (each.keep ? kMostKeptBytes : kMostBytes)) {
        refused.push_back(std::move(each));
        continue;
      }
      bytes_ += each.bytes;
      waiting_.push_back(std::move(each));
    }
  }
  changed_.notify_one();
  for (PendingBatch& each : refused) {
    loop_.post([committed = std::move(each.committed)] {
      committed(base::resource_exhausted("too many changes wait for the job store: its disk is full or too slow"));
    });
  }
}

// Waits for work. Returns false in the last round.
bool WriteThread::gather(std::vector<PendingBatch>& fresh) {
  std::unique_lock lock(mutex_);
  const auto is_due = [this] { return is_ending_ || !waiting_.empty(); };
  if (!kept_.empty()) {
    changed_.wait_until(lock, retry_at_, is_due);
  } else if (writer_.has_secrets_in_log()) {
    changed_.wait_until(lock, wipe_at_, is_due);
  } else {
    changed_.wait(lock, is_due);
  }
  const auto end = std::next(waiting_.begin(), static_cast<std::ptrdiff_t>(std::min(kMostBatches, waiting_.size())));
  fresh.assign(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
  waiting_.erase(waiting_.begin(), end);
  return !is_ending_ || !waiting_.empty();
}

void WriteThread::run() {
  while (true) {
    std::vector<PendingBatch> fresh;
    const bool continues = gather(fresh);
    const bool is_idle = fresh.empty();
    if (kept_.empty()) {
      commit(std::move(fresh));
    } else {
      hold(std::move(fresh));
    }
    if (!kept_.empty() && (!continues || std::chrono::steady_clock::now() >= retry_at_)) retry_kept();
    if (is_idle) wipe_if_due();
    if (continues) continue;
    for (PendingBatch& each : kept_) answer(each, trouble_);
    return;
  }
}

std::vector<base::Status> WriteThread::write(const std::vector<PendingBatch>& round) {
  std::vector<const Batch*> batches;
  for (const PendingBatch& each : round) batches.push_back(&each.batch);
  std::vector<base::Status> results = writer_.commit(batches);
  if (batches.size() < 2 || !is_broken(results.front())) return results;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    // If an earlier batch must be tried again, write no later batch, so that batches stay in order.
    const bool waits = i > 0 && is_passing(results[i - 1]);
    results[i] = waits ? results[i - 1] : writer_.commit({&batches[i], 1}).front();
  }
  return results;
}

void WriteThread::commit(std::vector<PendingBatch> round) {
  if (round.empty()) return;
  std::vector<base::Status> results = write(round);
  for (std::size_t i = 0; i < round.size(); ++i) {
    if (is_passing(results[i]) && round[i].keep) {
      put_off(results[i], {});  // retry at once, because there may be room without the refused batches
      kept_.push_back(std::move(round[i]));
    } else {
      answer(round[i], std::move(results[i]));
    }
  }
}

// If the log cannot be emptied now, the thread tries again later and reports nothing. A reader that blocks it finishes
// soon, and each commit reports a failing disk.
void WriteThread::wipe_if_due() {
  if (!kept_.empty() || !writer_.has_secrets_in_log() || base::monotonic_now() < wipe_at_) return;
  (void)writer_.wipe_log();
  wipe_at_ = base::monotonic_now() + kWipePause;
}

void WriteThread::put_off(const base::Status& why, std::chrono::milliseconds pause) {
  trouble_ = why;
  pause_ = pause;
  retry_at_ = base::monotonic_now() + pause;
}

// Handles batches that arrive while the store cannot be written.
void WriteThread::hold(std::vector<PendingBatch> fresh) {
  for (PendingBatch& each : fresh) {
    if (each.keep) {
      kept_.push_back(std::move(each));
    } else {
      answer(each, trouble_);
    }
  }
}

void WriteThread::retry_kept() {
  while (!kept_.empty()) {
    const auto end = std::next(kept_.begin(), static_cast<std::ptrdiff_t>(std::min(kMostBatches, kept_.size())));
    std::vector<PendingBatch> round(std::make_move_iterator(kept_.begin()), std::make_move_iterator(end));
    kept_.erase(kept_.begin(), end);
    std::vector<base::Status> results = write(round);
    const auto first_passing = static_cast<std::size_t>(std::ranges::find_if(results, is_passing) - results.begin());
    for (std::size_t i = 0; i < first_passing; ++i) answer(round[i], std::move(results[i]));
    if (first_passing == round.size()) continue;
    kept_.insert(kept_.begin(), std::make_move_iterator(round.begin() + static_cast<std::ptrdiff_t>(first_passing)),
                 std::make_move_iterator(round.end()));
    put_off(results[first_passing], std::clamp(2 * pause_, kFirstPause, kLongestPause));
    return;
  }
}

void WriteThread::answer(PendingBatch& pending, base::Status status) {
  {
    const std::lock_guard lock(mutex_);
    bytes_ -= pending.bytes;
  }
  loop_.post([committed = std::move(pending.committed), status = std::move(status)] { committed(status); });
}

}  // namespace muster::launcherd::store
