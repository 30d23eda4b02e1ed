#include "agent/job/progress_file.h"

#include <sys/stat.h>

#include <chrono>
#include <utility>

namespace muster::agent::inline job {
namespace {

constexpr std::chrono::seconds kPeriod(1);

}  // namespace

ProgressFile::ProgressFile(base::Loop& loop, std::function<void()> on_change, base::Duration patience)
    : loop_(loop), on_change_(std::move(on_change)), patience_(patience) {}

base::Status ProgressFile::watch(const std::string& workdir, const std::string& path) {
  if (path.empty()) return base::ok_status();
  if (thread_ == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(thread_, base::DiskThread::start(loop_));
  }
  path_ = path.starts_with('/') ? path : workdir + "/" + path;
  first_.reset();
  left_ = patience_;
  check();
  timer_ = loop_.every(kPeriod, [this] {
    left_ = patience_;
    if (asked_ == 0) static_cast<void>(ask());
  });
  return base::ok_status();
}

ProgressFile::Mark ProgressFile::mark_of(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return {};
  constexpr std::int64_t kNanosPerSecond = 1'000'000'000;
  return {.exists = true,
          .mtime_ns = found.st_mtim.tv_sec * kNanosPerSecond + found.st_mtim.tv_nsec,
          .size = found.st_size,
          .inode = found.st_ino};
}

std::future<ProgressFile::Mark> ProgressFile::ask() {
  const auto answer = std::make_shared<std::promise<Mark>>();
  ++asked_;
  thread_->add([this, path = path_, answer](const std::atomic<bool>& /*stop*/) -> base::Loop::Task {
    const Mark mark = mark_of(path);
    answer->set_value(mark);
    return [this, path, mark] {
      --asked_;
      is_late_ = false;
      if (path == path_) see(mark);
    };
  });
  return answer->get_future();
}

void ProgressFile::check() {
  if (path_.empty() || is_late_ || left_ <= base::Duration::zero()) return;
  const base::MonotonicTime began = base::monotonic_now();
  std::future<Mark> answer = ask();
  is_late_ = answer.wait_for(left_) != std::future_status::ready;
  left_ -= base::monotonic_now() - began;
  if (!is_late_) see(answer.get());
}

// A file that was removed shows no progress.
void ProgressFile::see(const Mark& now) {
  if (!first_) first_ = now;
  if (!now.exists || now == *first_) return;
  path_.clear();
  timer_.cancel();
  on_change_();
}

}  // namespace muster::agent::job
