// Holds back the signals that end a program while something must be cleaned up first.
#pragma once

#include <signal.h>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::cli::inline hosts {

// From open() to destruction, SIGHUP, SIGINT and SIGTERM stay pending for this thread. fd() is readable once one is
// pending. Destruction delivers them. Call open() before other threads exist.
class HeldSignals {
 public:
  static base::Result<HeldSignals> open();
  ~HeldSignals();
  HeldSignals(HeldSignals&&) = default;
  HeldSignals& operator=(HeldSignals&&) = delete;

  int fd() const { return fd_.get(); }

 private:
  HeldSignals(base::UniqueFd fd, const sigset_t& before) : fd_(std::move(fd)), before_(before) {}

  base::UniqueFd fd_;  // invalid after this object was moved from
  sigset_t before_;
};

}  // namespace muster::cli::hosts
