#include "launcherd/bootstrap/pump.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "base/thread.h"

namespace muster::launcherd::inline bootstrap {
namespace {

constexpr int kPollAgainMs = 100;

}  // namespace

Pump::~Pump() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.cancel();
  if (thread_.joinable()) thread_.join();
  start_new_items();
  for (const auto& item : items_) item->ask_to_end();
}

base::Status Pump::add(std::unique_ptr<PumpItem> item) {
  MUSTER_RETURN_IF_ERROR(wake_.status());
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) {
      MUSTER_ASSIGN_OR_RETURN(thread_, base::start_thread([this] { run(); }));
    }
    new_items_.push_back(std::move(item));
  }
  wake_.cancel();
  return base::ok_status();
}

void Pump::start_new_items() {
  const std::lock_guard lock(mutex_);
  for (auto& item : new_items_) items_.push_back(std::move(item));
  new_items_.clear();
}

void Pump::run() {
  ::pthread_setname_np(::pthread_self(), "boot-pump");
  std::vector<pollfd> fds;
  for (;;) {
    start_new_items();
    fds.assign(items_.size() * PumpItem::kFds + 1, pollfd{-1, 0, 0});
    std::optional<base::MonotonicTime> until;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      items_[i]->prepare(std::span<pollfd, PumpItem::kFds>(&fds[i * PumpItem::kFds], PumpItem::kFds));
      if (const auto deadline = items_[i]->deadline()) until = std::min(until.value_or(*deadline), *deadline);
    }
    fds.back() = {wake_.fd(), POLLIN, 0};
    int timeout = -1;
    if (until) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - std::chrono::steady_clock::now());
      timeout = static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(left.count(), 0, 60'000));
    }
    if (::poll(fds.data(), fds.size(), timeout) < 0 && errno != EINTR) {
      // poll() fails if the kernel lacks memory for so many descriptors, or if their limit was lowered. Poll again
      // soon, and until then serve only the items whose deadline is due.
      (void)::poll(&fds.back(), 1, std::min(timeout < 0 ? kPollAgainMs : timeout, kPollAgainMs));
    }
    if (fds.back().revents != 0) {
      std::uint64_t count = 0;
      if (::read(wake_.fd(), &count, sizeof count) < 0) MUSTER_CHECK(errno == EAGAIN);
      const std::lock_guard lock(mutex_);
      if (is_stopping_) return;
    }
    const auto now = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const std::span<const pollfd, PumpItem::kFds> own(&fds[i * PumpItem::kFds], PumpItem::kFds);
      const auto deadline = items_[i]->deadline();
      const bool is_due = (deadline && *deadline <= now) ||
                          std::any_of(own.begin(), own.end(), [](const pollfd& p) { return p.revents != 0; });
      if (is_due && !items_[i]->serve(own)) items_[i].reset();
    }
    std::erase(items_, nullptr);
  }
}

}  // namespace muster::launcherd::bootstrap
