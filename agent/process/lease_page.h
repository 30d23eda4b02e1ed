// The lease in memory shared by agent and warden, so that renewing it costs nothing and needs no answer; and an eventfd
// that wakes the warden when it must look again. Created before the fork; each side owns its copy. Thread-safe.
#pragma once

#include <atomic>
#include <optional>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent {

class LeasePage {
 public:
  static base::Result<LeasePage> create();
  ~LeasePage();
  LeasePage(LeasePage&& other) noexcept;
  LeasePage& operator=(LeasePage&& other) noexcept;

  void set(std::optional<base::MonotonicTime> until);  // nullopt: none in force
  std::optional<base::MonotonicTime> get() const;
  int wake_fd() const { return wake_.get(); }  // readable after a set() that may end earlier than before
  void drain_wake() const;

 private:
  LeasePage(std::atomic<std::int64_t>* until, base::UniqueFd wake) : until_(until), wake_(std::move(wake)) {}
  std::atomic<std::int64_t>* until_ = nullptr;
  base::UniqueFd wake_;
};

}  // namespace muster::agent
