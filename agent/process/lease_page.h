// The lease in memory that agent and warden share, so that renewing it costs nothing and needs no answer. An eventfd
// wakes the warden when it must read the lease again.
//
// Owner: it is created before the fork, and each side owns its copy. An agent that did not fork its warden itself
// attaches by the page's descriptors.
// Thread: thread-safe.
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
  // `page` and `wake` are duplicates of another page's page_fd() and wake_fd().
  static base::Result<LeasePage> attach(base::UniqueFd page, base::UniqueFd wake);
  ~LeasePage();
  LeasePage(LeasePage&& other) noexcept;
  LeasePage& operator=(LeasePage&& other) noexcept;

  void set(std::optional<base::MonotonicTime> until);  // nullopt means that no lease is in force
  std::optional<base::MonotonicTime> get() const;
  // Readable after a set() to an earlier time than before.
  int wake_fd() const { return wake_.get(); }
  void drain_wake() const;
  int page_fd() const { return page_.get(); }
  // These give the page's descriptors away. Afterwards the page may only be destroyed.
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
