// The lease in memory shared by agent and warden, so that renewing it costs nothing and needs no answer; and an eventfd
// that wakes the warden when it must look again. Created before the fork; each side owns its copy. An agent that was
// not there when its warden was forked attaches to the page by its descriptors. Thread-safe.
#pragma once

#include <atomic>
#include <optional>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline process {

class LeasePage {
 public:
  static base::Result<LeasePage> create();
  // `page` and `wake`: duplicates of another one's page_fd() and wake_fd().
  static base::Result<LeasePage> attach(base::UniqueFd page, base::UniqueFd wake);
  ~LeasePage();
  LeasePage(LeasePage&& other) noexcept;
  LeasePage& operator=(LeasePage&& other) noexcept;

  void set(std::optional<base::MonotonicTime> until);  // nullopt: none in force
  std::optional<base::MonotonicTime> get() const;
  int wake_fd() const { return wake_.get(); }  // readable after a set() that may end earlier than before
  void drain_wake() const;
  int page_fd() const { return page_.get(); }
  // Only to be destroyed afterwards.
  base::UniqueFd release_page() { return std::move(page_); }
  base::UniqueFd release_wake() { return std::move(wake_); }

 private:
  LeasePage(std::atomic<std::int64_t>* until, base::UniqueFd page, base::UniqueFd wake)
      : until_(until), page_(std::move(page)), wake_(std::move(wake)) {}
  std::atomic<std::int64_t>* until_ = nullptr;
  base::UniqueFd page_;
  base::UniqueFd wake_;
};

}  // namespace muster::agent::process
