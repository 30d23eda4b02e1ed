#include "launcherd/store/write_thread.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "base/thread.h"

namespace muster::launcherd {
namespace {

using base::Code;

// How long after a full disk what is kept is tried again.
constexpr std::chrono::milliseconds kRetry{500};
// A transaction takes no more batches than this, so that the first of many is answered soon.
constexpr std::size_t kMostBatches = 512;

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
      if (bytes_ + each.bytes > kMostBytes) {
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
      committed(base::error(Code::kResourceExhausted,
                            "more than {} MiB wait to be written into the job store: its disk is full or too slow",
                            kMostBytes >> 20));
    });
  }
}

// Waits until there is something to do; false: this is the last round.
bool WriteThread::gather(std::vector<PendingBatch>& fresh) {
  std::unique_lock lock(mutex_);
  const auto is_due = [this] { return is_ending_ || !waiting_.empty(); };
  if (kept_.empty()) {
    changed_.wait(lock, is_due);
  } else {
    changed_.wait_until(lock, retry_at_, is_due);
  }
  const auto end = std::next(waiting_.begin(), static_cast<std::ptrdiff_t>(std::min(kMostBatches, waiting_.size())));
  fresh.assign(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
  waiting_.erase(waiting_.begin(), end);
  return !is_ending_ || !waiting_.empty();
}

void WriteThread::run() {
  while (true) {
    std::vector<PendingBatch> fresh;
    const bool goes_on = gather(fresh);
    if (kept_.empty()) {
      commit(std::move(fresh));
    } else {
      hold(std::move(fresh));
    }
    if (!kept_.empty() && (!goes_on || std::chrono::steady_clock::now() >= retry_at_)) retry_kept();
    if (goes_on) continue;
    for (PendingBatch& each : kept_) answer(each, full_);
    return;
  }
}

std::vector<base::Status> WriteThread::write(const std::vector<PendingBatch>& round) {
  std::vector<const Batch*> batches;
  for (const PendingBatch& each : round) batches.push_back(&each.batch);
  return writer_.commit(batches);
}

void WriteThread::commit(std::vector<PendingBatch> round) {
  if (round.empty()) return;
  std::vector<base::Status> results = write(round);
  for (std::size_t i = 0; i < round.size(); ++i) {
    if (results[i].code() == Code::kResourceExhausted && round[i].keep) {
      full_ = results[i];
      retry_at_ = {};  // at once: without what is refused there may be room
      kept_.push_back(std::move(round[i]));
    } else {
      answer(round[i], std::move(results[i]));
    }
  }
}

// What comes while the disk is full.
void WriteThread::hold(std::vector<PendingBatch> fresh) {
  for (PendingBatch& each : fresh) {
    if (each.keep) {
      kept_.push_back(std::move(each));
    } else {
      answer(each, full_);
    }
  }
}

void WriteThread::retry_kept() {
  while (!kept_.empty()) {
    const auto end = std::next(kept_.begin(), static_cast<std::ptrdiff_t>(std::min(kMostBatches, kept_.size())));
    std::vector<PendingBatch> round(std::make_move_iterator(kept_.begin()), std::make_move_iterator(end));
    kept_.erase(kept_.begin(), end);
    std::vector<base::Status> results = write(round);
    if (results.front().code() == Code::kResourceExhausted) {
      full_ = results.front();
      kept_.insert(kept_.begin(), std::make_move_iterator(round.begin()), std::make_move_iterator(round.end()));
      retry_at_ = std::chrono::steady_clock::now() + kRetry;
      return;
    }
    for (std::size_t i = 0; i < round.size(); ++i) answer(round[i], std::move(results[i]));
  }
}

void WriteThread::answer(PendingBatch& pending, base::Status status) {
  {
    const std::lock_guard lock(mutex_);
    bytes_ -= pending.bytes;
  }
  loop_.post([committed = std::move(pending.committed), status = std::move(status)] { committed(status); });
}

}  // namespace muster::launcherd
